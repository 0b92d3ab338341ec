package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An error at the start is one sentence.
func TestStartErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		arguments []string
		want      string
	}{
		"no server":    {nil, "no API server is named: set KUBECONFIG or --kubeconfig"},
		"no file":      {[]string{"--kubeconfig", "none.yaml"}, "read the kubeconfig: stat none.yaml: no such file or directory"},
		"no answer":    {[]string{"--kubeconfig", kubeconfig}, "connection refused"},
		"no provider":  {[]string{"--kubeconfig", kubeconfig, "--provider", "cloud"}, `there is no provider "cloud": choose auto, pods or simulated`},
		"unknown flag": {[]string{"--nope"}, "unknown flag: --nope"},
		"argument":     {[]string{"start"}, `unknown command "start"`},
	} {
		t.Run(name, func(t *testing.T) {
			command := newCommand()
			command.SetArgs(tt.arguments)
			command.SetOut(&bytes.Buffer{})
			if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
