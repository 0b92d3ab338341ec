package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// source is the Go code of one package, without its tests.
type source struct {
	files []*ast.File
	// values are the expressions that names stand for: constants and variables, of functions, too.
	values map[string]ast.Expr
}

// parse reads the package in a folder. It has no files if the folder has no Go code.
func parse(dir string) (*source, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{values: map[string]ast.Expr{}}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "zz_") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
		ast.Inspect(file, s.remember)
	}
	return s, nil
}

// parseBelow reads all packages in and below folders.
func parseBelow(dirs ...string) ([]*source, error) {
	var all []*source
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "testdata" {
				return fs.SkipDir
			}
			s, err := parse(path)
			if err == nil && len(s.files) > 0 {
				all = append(all, s)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remember notes what a name stands for.
func (s *source) remember(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				s.values[name.Name] = n.Values[i]
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if name, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) && s.values[name.Name] == nil {
				s.values[name.Name] = n.Rhs[i]
			}
		}
	}
	return true
}

// errNotConstant is returned for an expression whose value only the running program knows.
var errNotConstant = errors.New("not a constant")

// text returns the value of an expression: a string, a number, a name for one, or a sum of them.
func (s *source) text(expression ast.Expr) (string, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
		return e.Value, nil
	case *ast.Ident:
		if value := s.values[e.Name]; value != nil {
			return s.text(value)
		}
	case *ast.ParenExpr:
		return s.text(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			break
		}
		left, err := s.text(e.X)
		if err != nil {
			return "", err
		}
		right, err := s.text(e.Y)
		return left + right, err
	}
	return "", errNotConstant
}

// texts returns the strings of a list: a literal, a name for one, nil, or slices.Concat of lists.
func (s *source) texts(expression ast.Expr) ([]string, error) {
	var all []string
	switch e := expression.(type) {
	case *ast.Ident:
		if e.Name == "nil" {
			return nil, nil
		}
		if value := s.values[e.Name]; value != nil {
			return s.texts(value)
		}
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			value, err := s.text(element)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		return all, nil
	case *ast.CallExpr:
		if nameOf(e.Fun) != "slices.Concat" {
			break
		}
		for _, argument := range e.Args {
			values, err := s.texts(argument)
			if err != nil {
				return nil, err
			}
			all = slices.Concat(all, values)
		}
		return all, nil
	}
	return nil, errNotConstant
}

// nameOf returns PACKAGE.NAME or NAME for such an expression, and "" for any other.
func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}
