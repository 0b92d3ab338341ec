package commands

import (
	"testing"

	"github.com/bursar/bursar/internal/cli"
)

// TestImportAgain checks that the advice after an import repeats the flags of the run.
func TestImportAgain(t *testing.T) {
	command := newImportCommand(cli.Program{})
	arguments := []string{"--from", "milo", "--source-context", "old cluster", "--source-kubeconfig=/a/b", "--system-namespace", "quota", "--prune", "--dry-run", "-o", "json",
		"--context", "it's", "--as-group", "a", "--as-group", "b"}
	if err := command.ParseFlags(arguments); err != nil {
		t.Fatal(err)
	}
	const common = `import --from milo --as-group=a --as-group=b '--context=it'\''s'`
	if got, want := again(command), common+` --prune '--source-context=old cluster' --source-kubeconfig=/a/b --system-namespace=quota`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := again(command, importOnly...), common+" --system-namespace=quota"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
