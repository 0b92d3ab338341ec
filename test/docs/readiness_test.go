package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadinessNamesTests wants every test named by the page on production readiness to exist. The page names them as
// `folder: TestA, TestB`.
func TestReadinessNamesTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/production-readiness.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+):\\s+(Test[^`]*)`").FindAllStringSubmatch(string(page), -1)
	for _, match := range named {
		files, err := filepath.Glob(filepath.Join(root, match[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests []string
		for _, file := range files {
			tests = append(tests, functionsOf(t, strings.TrimPrefix(file, root+"/"))...)
		}
		for name := range strings.SplitSeq(match[2], ",") {
			if name = strings.TrimSpace(name); name != "Test" && !slices.Contains(tests, name) {
				t.Errorf("there is no test %s in %s", name, match[1])
			}
		}
	}
	if len(named) < 20 {
		t.Errorf("only %d places name tests", len(named))
	}
}
