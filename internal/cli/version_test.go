package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	run := func(arguments ...string) (string, error) {
		command := newVersionCommand("v1.2.3")
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetArgs(arguments)
		err := command.Execute()
		return out.String(), err
	}
	if out, err := run(); out != "v1.2.3\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	out, err := run("-o", "json")
	var got versions
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Errorf("it is no JSON: %v", err)
	}
	if err != nil || got.Version != "v1.2.3" || !strings.HasPrefix(got.Go, "go1.") || got.Platform == "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if out, err := run("-o", "yaml"); !strings.Contains(out, "version: v1.2.3\n") || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := run("-o", "wide"); err == nil || !strings.Contains(err.Error(), `there is no format "wide"; choose json or yaml`) {
		t.Errorf("got %v", err)
	}
}
