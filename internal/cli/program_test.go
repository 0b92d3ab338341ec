package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestProgramOf(t *testing.T) {
	for argument, want := range map[string]string{
		"bursar": "bursar", "/usr/bin/bursar": "bursar", "bursar-v1": "bursar", "kubectl-bursar": "kubectl bursar",
		"/home/jo/.krew/bin/kubectl-bursar": "kubectl bursar", "kubectl-bursar.exe": "kubectl bursar",
	} {
		if got := ProgramOf(argument, "test").Name; got != want {
			t.Errorf("%s is %q, want %q", argument, got, want)
		}
	}
}

// TestWords checks texts of the plugin: they name its own commands as users type them, and leave all others alone.
func TestWords(t *testing.T) {
	usage := func() *cobra.Command { return &cobra.Command{Use: "usage", Run: func(*cobra.Command, []string) {}} }
	of := map[string]*cobra.Command{"bursar": New(Program{Name: "bursar"}, usage()), "kubectl bursar": New(Plugin("test"), usage())}
	for name, tt := range map[string]struct{ reason, text, want string }{
		"Own":    {"a command that it has", "see bursar usage -A", "see kubectl bursar usage -A"},
		"Server": {"the plugin has no server", "run bursar standalone", "run bursar standalone"},
		"Twice":  {"it is named already", "see kubectl bursar usage", "see kubectl bursar usage"},
		"Start":  {"at the beginning of a line", "bursar usage\nbursar usage", "kubectl bursar usage\nkubectl bursar usage"},
		"Path":   {"a path of a binary is not changed", "see bin/bursar-x usage", "see bin/bursar-x usage"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Words(of["kubectl bursar"], tt.text); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
			if got := Words(of["bursar"], tt.text); got != tt.text {
				t.Errorf("bursar changes %q to %q", tt.text, got)
			}
		})
	}
}
