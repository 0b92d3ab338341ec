// Package targets holds the targets of the Makefile to the existing packages.
package targets

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryPackageHasOneTarget proves that the targets for tests run every package exactly once.
func TestEveryPackageHasOneTarget(t *testing.T) {
	campaigns, err := os.ReadDir(filepath.Join(root, "test", "campaign"))
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"test"}
	for _, campaign := range campaigns {
		if campaign.IsDir() {
			targets = append(targets, "campaign-"+campaign.Name())
		}
	}
	owners := map[string][]string{}
	for _, target := range targets {
		for _, found := range tested(t, target) {
			owners[found] = append(owners[found], target)
		}
	}
	for _, found := range list(t, "./...") {
		if len(owners[found]) != 1 {
			t.Errorf("%s is tested by %q, want one target", found, owners[found])
		}
	}
	together := tested(t, "campaigns")
	for found, targets := range owners {
		if campaign := targets[0] != "test"; slices.Contains(together, found) != campaign {
			t.Errorf("make campaigns and make %s do not agree on %s", targets[0], found)
		}
	}
}

// TestFoldersAreExplained proves that the page on tests explains each folder.
func TestFoldersAreExplained(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && !strings.Contains(string(page), "`"+entry.Name()+"`") {
			t.Errorf("test/README.md does not say what %s is for", entry.Name())
		}
	}
}

// tested returns the packages tested by a target.
func tested(t *testing.T, target string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", "--silent", "--dry-run", target)
	command.Dir = root
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	output, err := command.Output()
	if err != nil {
		t.Fatalf("make %s: %v", target, err)
	}
	// Of `go test -flag value ./one/... example.com/two`, the words with a slash.
	patterns := slices.DeleteFunc(strings.Fields(string(output)), func(word string) bool { return !strings.Contains(word, "/") })
	if len(patterns) == 0 {
		t.Fatalf("make %s tests no package: %s", target, output)
	}
	return list(t, patterns...)
}

func list(t *testing.T, patterns ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, patterns...)...)
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list %q: %v", patterns, err)
	}
	return strings.Fields(string(output))
}
