package tidy

import (
	"go/ast"
	"path"
	"testing"
)

// "Go to definition" leads to code: a struct calls methods of an interface or of a concrete type.
func TestNoFunctionFields(t *testing.T) {
	kept := newExceptions(t, functionFields)
	files := sources(t, "api", "cmd", "internal", "sdk")
	named := functionTypes(files)
	for _, f := range files {
		ast.Inspect(f.File, func(node ast.Node) bool {
			declared, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := declared.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range structure.Fields.List {
				if !isFunction(f, field.Type, named) {
					continue
				}
				for _, name := range field.Names {
					called := f.folder() + "." + declared.Name.Name + "." + name.Name
					if name.IsExported() && !kept.have(called) {
						t.Errorf("%s: %s is a function that somebody sets elsewhere: declare a small interface, or take a concrete type", f.at(name), called)
					}
				}
			}
			return true
		})
	}
}

// functionTypes returns the named function types by folder and name.
func functionTypes(files []*file) map[string]bool {
	named := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f.File, func(node ast.Node) bool {
			if declared, ok := node.(*ast.TypeSpec); ok {
				if _, ok := declared.Type.(*ast.FuncType); ok {
					named[f.folder()+"."+declared.Name.Name] = true
				}
			}
			return true
		})
	}
	return named
}

// isFunction reports whether a type is that of functions.
func isFunction(f *file, of ast.Expr, named map[string]bool) bool {
	switch of := of.(type) {
	case *ast.FuncType:
		return true
	case *ast.Ident:
		return named[f.folder()+"."+of.Name]
	case *ast.SelectorExpr:
		from, ok := of.X.(*ast.Ident)
		if !ok {
			return false
		}
		for _, spec := range f.Imports {
			imported := spec.Path.Value[1 : len(spec.Path.Value)-1]
			if len(imported) <= len(module) || imported[:len(module)] != module {
				continue
			}
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == from.Name && named[imported[len(module)+1:]+"."+of.Sel.Name] {
				return true
			}
		}
	}
	return false
}
