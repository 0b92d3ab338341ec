// Package quickstart runs the commands of the README for newcomers.
package quickstart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/test/process"
)

const root = "../../../.."

func TestQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the binary and starts a server")
	}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(root, "examples/quickstart/run.sh"), binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{
		"project.resourcemanager.example.com/mobile created",
		"exceeded quota: Project quota of Organization acme, requested: 1 project, used: 2, limited: 2",
		"project.resourcemanager.example.com/data created",
		"exceeded quota: ConfigMap quota of Organization acme, requested: 1 config map, used: 1, limited: 1",
		"bin/bursar standalone  ",
		"docs/tasks/standalone.md",
		"bursar: stopped",
	} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
	printed := strings.Join(strings.Fields(string(output)), " ")
	for part := range strings.SplitSeq(readmeBlock(t, "(?s)```\n\\$ kubectl create [^\n]*\n(.*?)```"), "...") {
		if part = strings.Join(strings.Fields(part), " "); !strings.Contains(printed, part) {
			t.Errorf("README.md shows %q, and the output has no such text:\n%s", part, output)
		}
	}
}

// TestReadmePolicy makes sure that README.md shows a policy of the quickstart.
func TestReadmePolicy(t *testing.T) {
	policies := readFile(t, "examples/quickstart/3-policies.yaml")
	first, _, _ := strings.Cut(policies, "\n---")
	if diff := cmp.Diff(parse(t, first), parse(t, readmeBlock(t, "(?s)```yaml\n(.*?)```"))); diff != "" {
		t.Errorf("the policy in README.md differs from the quickstart's (-quickstart +README):\n%s", diff)
	}
}

// readmeBlock returns the group of a pattern in README.md.
func readmeBlock(t *testing.T, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(readFile(t, "README.md"))
	if found == nil {
		t.Fatalf("README.md has no block %s", pattern)
	}
	return found[1]
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func parse(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
