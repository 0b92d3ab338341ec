package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// command finds a kubectl command with resources.
var command = regexp.MustCompile(`kubectl (-n \S+ )?(annotate|delete|describe|edit|explain|get|label|patch|wait)\b`)

// claimName finds the resource name of claims, with the characters after it.
var claimName = regexp.MustCompile(`\bresourceclaims?\b[\w.]*`)

// TestClaimsAreNamedInFull holds every kubectl command to the full name of claims, or the short one. Since Kubernetes
// 1.34 the bare name means claims of devices, so a command with it reads, and deletes, objects of somebody else.
func TestClaimsAreNamedInFull(t *testing.T) {
	commands := 0
	for _, folder := range []string{"README.md", "docs", "examples", "deploy", "internal", "cmd", "sdk"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".sh", ".go", ".txt", ".yaml", ".tpl"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(content)) {
				if !command.MatchString(line) {
					continue
				}
				commands++
				for _, name := range claimName.FindAllString(line, -1) {
					if !strings.HasSuffix(strings.TrimRight(name, "."), ".quota.miloapis.com") {
						t.Errorf("%s names claims %q, which are those of devices: %s", path, name, line)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if commands < 30 {
		t.Errorf("only %d commands were found", commands)
	}
}
