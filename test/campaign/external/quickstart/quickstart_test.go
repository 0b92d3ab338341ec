// Package quickstart runs the commands of the README for newcomers.
package quickstart

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/process"
)

func TestQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the binary and starts a server")
	}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "../../../../examples/quickstart/run.sh", binary).CombinedOutput()
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
}
