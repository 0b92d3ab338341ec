package commands_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhyWrongFile makes sure that a file without an object is told from a denial, before anything asks a server.
func TestWhyWrongFile(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"Broken":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n", "line 3: "},
		"Second":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\n", "line 5: apiVersion or kind is missing: every object needs both"},
		"Nothing": {"# nothing\n", " has no object"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "object.yaml")
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			root := programs["bursar"]()
			root.SetArgs([]string{"why", "-f", file})
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.Execute()
			if err == nil || !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one about %s that has %q", err, file, tt.want)
			}
		})
	}
}
