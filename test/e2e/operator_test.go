package e2e

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/cli/operate"
)

// An operator beside a standalone server would enforce the same quota with a leader of its own.
func TestOperatorRefusesAStandaloneServer(t *testing.T) {
	t.Parallel()
	command := operate.Command("test")
	command.SetArgs([]string{"--kubeconfig", started.Kubeconfig})
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(t.Context())
	if want := "is a standalone Bursar, and enforces quota itself"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
