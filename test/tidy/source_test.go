package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the import path of the repository.
const module = "github.com/bursar/bursar"

// file is a Go file that is neither generated nor a test.
type file struct {
	*ast.File
	fset *token.FileSet
	// path is relative to the root of the repository, with slashes.
	path string
}

// folder is where the package of the file is.
func (f *file) folder() string { return path.Dir(f.path) }

// at is the position of a node, for messages.
func (f *file) at(node ast.Node) string {
	return f.fset.Position(node.Pos()).String()
}

// sources reads the files below some folders of the repository.
func sources(t *testing.T, folders ...string) []*file {
	t.Helper()
	const root = "../.."
	var files []*file
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, filepath.ToSlash(relative), content, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil || ast.IsGenerated(parsed) {
				return err
			}
			files = append(files, &file{parsed, fset, filepath.ToSlash(relative)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatalf("there are no Go files in %s", folders)
	}
	return files
}

// exceptions are the permitted violations of a rule, with the reason. Remove an unneeded one.
type exceptions struct {
	*testing.T
	reasons map[string]string
	used    map[string]bool
}

func newExceptions(t *testing.T, reasons map[string]string) *exceptions {
	e := &exceptions{t, reasons, map[string]bool{}}
	t.Cleanup(func() {
		for name := range reasons {
			if !e.used[name] {
				t.Errorf("%s breaks the rule no longer: take it out of the exceptions in test/tidy", name)
			}
		}
	})
	return e
}

// have reports whether something is an exception.
func (e *exceptions) have(name string) bool {
	_, isException := e.reasons[name]
	e.used[name] = e.used[name] || isException
	return isException
}
