package main

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

const configurationHead = `# Configuration

` + generated + `All settings of Bursar, with their defaults: the operator's file, the values of the chart, and the variables of the
environment. A standalone server has [flags](commands.md#bursar-standalone) instead of the file.
[The operator](../tasks/operator.md) shows a file and explains the settings in their context.

`

const fileHead = `## The operator's configuration file

` + "`bursar operator --config FILE`" + ` reads a file beginning with ` + "`apiVersion: config.quota.miloapis.com/v1alpha1`" + ` and
` + "`kind: OperatorConfiguration`" + `. The chart writes it from its value ` + "`configuration`" + `. An unknown field is
an error. ` + "`[]`" + ` stands for an element of a list. A setting without a default is unset.

`

func configurationPage(root string) (string, error) {
	s, err := parse(filepath.Join(root, "internal/config"))
	if err != nil {
		return "", err
	}
	fields := &table{header: []string{"field", "default", "meaning"}}
	if err := s.addFields(fields, "", s.structure("Operator")); err != nil {
		return "", err
	}
	values, err := chartValues(filepath.Join(root, "deploy/chart/bursar/values.yaml"))
	if err != nil {
		return "", err
	}
	variables, err := environment(root)
	if err != nil {
		return "", err
	}
	page := configurationHead + fileHead + fields.String() + chartHead + values.String() + environmentHead + variables.String()
	return strings.TrimRight(page, "\n") + "\n", nil
}

// structure returns the struct type of a name, or nil.
func (s *source) structure(name string) *ast.StructType {
	var found *ast.StructType
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok && spec.Name.Name == name {
				found, _ = spec.Type.(*ast.StructType)
			}
			return found == nil
		})
	}
	return found
}

// addFields adds a row for each field of a struct and of those in it. A field without a comment is an error.
func (s *source) addFields(rows *table, path string, structure *ast.StructType) error {
	for _, field := range structure.Fields.List {
		name := jsonName(field)
		if name == "-" {
			continue
		}
		inner, suffix := s.inner(field.Type)
		if name == "" { // it is inline
			if inner != nil {
				if err := s.addFields(rows, path, inner); err != nil {
					return err
				}
			}
			continue
		}
		if strings.TrimSpace(field.Doc.Text()) == "" {
			return fmt.Errorf("field %s%s has no comment that explains it", path, name)
		}
		meaning, value := splitDefault(s.resolve(field.Doc.Text()))
		if rest, isRequired := strings.CutSuffix(strings.TrimSpace(meaning), " Required."); isRequired {
			meaning, value = rest, "required"
		}
		rows.add(code(path+name), prose(value), prose(withoutName(meaning, field.Names[0].Name)))
		if inner != nil {
			if err := s.addFields(rows, path+name+suffix+".", inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// inner returns the struct that a field holds, itself or in a list, with the suffix of the field's path. Durations are
// no structs to people.
func (s *source) inner(fieldType ast.Expr) (structure *ast.StructType, suffix string) {
	switch t := fieldType.(type) {
	case *ast.StarExpr:
		return s.inner(t.X)
	case *ast.ArrayType:
		structure, _ = s.inner(t.Elt)
		return structure, "[]"
	case *ast.Ident:
		if t.Name != "Duration" {
			return s.structure(t.Name), ""
		}
	}
	return nil, ""
}

// jsonName returns the name of a field in the file, or "" if it is inline.
func jsonName(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}
