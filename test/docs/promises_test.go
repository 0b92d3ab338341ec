// Package docs holds the documentation to the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root     = "../.."
	promises = "docs/reference/promises.md"
)

// row is a promise in the table of a kind.
type row struct {
	line                   int
	kind                   string
	promise, tests, reason string
}

// readPromises reads all rows of all tables.
func readPromises(t *testing.T) []row {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, promises))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	kind := ""
	for i, line := range strings.Split(string(page), "\n") {
		if heading, found := strings.CutPrefix(line, "## "); found {
			kind = heading
		}
		cells := strings.Split(line, " | ")
		isHead := strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| promise")
		if !strings.HasPrefix(line, "|") || isHead {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("line %d has %d cells, want 3: %s", i+1, len(cells), line)
			continue
		}
		rows = append(rows, row{
			line: i + 1, kind: kind, promise: strings.TrimPrefix(cells[0], "| "), tests: strings.TrimSpace(cells[1]),
			reason: strings.TrimSpace(strings.TrimSuffix(cells[2], "|")),
		})
	}
	return rows
}

// TestEveryPromiseIsAccountedFor wants a test or a reason for each promise, in a table for each kind of the API
// reference.
func TestEveryPromiseIsAccountedFor(t *testing.T) {
	var kinds []string
	said := map[string]int{}
	for _, r := range readPromises(t) {
		if r.promise == "" || r.tests == "" && r.reason == "" {
			t.Errorf("line %d has a promise with neither a test nor a reason: %q", r.line, r.promise)
		}
		if before := said[r.kind+r.promise]; before > 0 {
			t.Errorf("line %d repeats line %d: %s", r.line, before, r.promise)
		}
		said[r.kind+r.promise] = r.line
		if !slices.Contains(kinds, r.kind) {
			kinds = append(kinds, r.kind)
		}
	}
	want := []string{"AllowanceBucket", "ClaimCreationPolicy", "GrantCreationPolicy", "ResourceClaim", "ResourceGrant", "ResourceRegistration"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds with tables (-want +got):\n%s", diff)
	}
}

var link = regexp.MustCompile(`\[(\w+)\]\((?:\.\./)+([^)]*)\)`)

// TestNamedTestsExist wants each named test to be a function of its named file.
func TestNamedTestsExist(t *testing.T) {
	functions := map[string][]string{} // by file
	for _, r := range readPromises(t) {
		links := link.FindAllStringSubmatch(r.tests, -1)
		if rest := strings.Trim(link.ReplaceAllString(r.tests, ""), ", "); rest != "" {
			t.Errorf("line %d: %q is no link to a test", r.line, rest)
		}
		for _, match := range links {
			name, file := match[1], match[2]
			if !strings.HasPrefix(name, "Test") || !strings.HasSuffix(file, "_test.go") {
				t.Errorf("line %d: %s in %s is no test", r.line, name, file)
				continue
			}
			if functions[file] == nil {
				functions[file] = functionsOf(t, file)
			}
			if !slices.Contains(functions[file], name) {
				t.Errorf("line %d: there is no test %s in %s", r.line, name, file)
			}
		}
	}
	if len(functions) == 0 {
		t.Error("no test is named at all")
	}
}

// functionsOf lists the functions of a file. It is neither empty nor nil for a readable file.
func functionsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return []string{""}
	}
	names := []string{""}
	for _, declaration := range parsed.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
			names = append(names, function.Name.Name)
		}
	}
	return names
}
