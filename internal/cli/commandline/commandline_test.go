package commandline

import "testing"

func TestJoin(t *testing.T) {
	got := Join("bursar", "usage", "--type", "a; rm -rf /", "-n", "acme", "", "it's")
	if want := `bursar usage --type 'a; rm -rf /' -n acme '' 'it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
