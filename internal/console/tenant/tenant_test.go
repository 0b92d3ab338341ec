package tenant

import "testing"

func TestCommandsAreQuoted(t *testing.T) {
	got := command("bursar usage", "-n", "", "--consumer", "Project/web; rm -rf ~", "--type", "it's", "--since", "7d")
	if want := `bursar usage --consumer 'Project/web; rm -rf ~' --type 'it'\''s' --since 7d`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
