package web

import "testing"

func TestCommandLine(t *testing.T) {
	got := CommandLine("bursar", "usage", "--type", "a; rm -rf /", "-n", "acme", "", "it's")
	if want := `bursar usage --type 'a; rm -rf /' -n acme '' 'it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
