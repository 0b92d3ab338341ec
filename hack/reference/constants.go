package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// apis are the packages of the API by the names of their groups.
var apis = []struct{ group, dir string }{
	{"quota.miloapis.com", "api/quota/v1alpha1"},
	{"openmcp.cloud", "api/openmcp/v1alpha1"},
}

// constant is a constant of the API.
type constant struct {
	name, value string
	// comment is its own, without its name, and with the values of the constants that it names.
	comment string
	// about is the comment of its group.
	about string
}

// constantsOf returns the exported constants of a package whose names begin with a prefix and a capital letter, in the
// order of their values. One without a comment is an error.
func constantsOf(s *source, prefix string) ([]constant, error) {
	var all []constant
	for _, file := range s.files {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				found, err := s.constants(group, spec.(*ast.ValueSpec), prefix)
				if err != nil {
					return nil, err
				}
				all = append(all, found...)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return all, nil
}

// constants returns those of one declaration.
func (s *source) constants(group *ast.GenDecl, spec *ast.ValueSpec, prefix string) ([]constant, error) {
	var all []constant
	for i, name := range spec.Names {
		rest, ok := strings.CutPrefix(name.Name, prefix)
		if !ok || rest == "" || !ast.IsExported(rest) || i >= len(spec.Values) {
			continue
		}
		value, err := s.text(spec.Values[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name.Name, err)
		}
		c := constant{name: name.Name, value: value, comment: spec.Doc.Text()}
		if group.Lparen.IsValid() {
			c.about = s.resolve(group.Doc.Text())
		} else {
			c.comment = group.Doc.Text()
		}
		if c.comment == "" && i == 0 && len(all) == 0 {
			c.comment = commentBefore(group, spec)
		}
		if strings.TrimSpace(c.comment) == "" {
			return nil, fmt.Errorf("constant %s has no comment that explains it", name.Name)
		}
		c.comment = withoutName(s.resolve(c.comment), name.Name)
		all = append(all, c)
	}
	return all, nil
}

// commentBefore returns the comment that two declarations below each other share, such as one for two keys.
func commentBefore(group *ast.GenDecl, spec *ast.ValueSpec) string {
	at := slices.Index(group.Specs, ast.Spec(spec))
	if at < 1 {
		return ""
	}
	before := group.Specs[at-1].(*ast.ValueSpec)
	if text := before.Doc.Text(); strings.Contains(text, spec.Names[0].Name) {
		return text
	}
	return ""
}

// reference is a name in a comment, in the form of Go's links.
var reference = regexp.MustCompile(`\[([A-Z]\w+)\]`)

// resolve replaces the names in a comment by their values.
func (s *source) resolve(comment string) string {
	return reference.ReplaceAllStringFunc(comment, func(found string) string {
		name := found[1 : len(found)-1]
		value, err := s.text(&ast.Ident{Name: name})
		if err != nil {
			value = name
		}
		if _, err := strconv.Atoi(value); err == nil {
			return value
		}
		return "`" + value + "`"
	})
}

// subject is the beginning of a comment: one or more names, and a verb that says nothing in a table.
var subject = regexp.MustCompile(`^[A-Z]\w+(?: and [A-Z]\w+)?(?: (?:is|are|means that)\b,?|:)? ?`)

// withoutName returns a comment without the name that it begins with.
func withoutName(comment, name string) string {
	if !strings.HasPrefix(comment, name) && !strings.Contains(subject.FindString(comment), name) {
		return sentence(comment)
	}
	return sentence(subject.ReplaceAllString(comment, ""))
}

// eachAPI calls f with the source of each package of the API.
func eachAPI(root string, f func(group string, s *source) error) error {
	for _, api := range apis {
		s, err := parse(filepath.Join(root, api.dir))
		if err != nil {
			return err
		}
		if err := f(api.group, s); err != nil {
			return fmt.Errorf("%s: %w", api.dir, err)
		}
	}
	return nil
}
