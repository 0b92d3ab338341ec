// Package helm runs Helm for tests, built from the Go module proxy.
package helm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const module = "helm.sh/helm/v3/cmd/helm@v3.22.0"

// build builds Helm once and returns its path.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bursar-helm-")
	if err != nil {
		return "", err
	}
	install := exec.Command("go", "install", module)
	install.Dir = dir // not in this module
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if output, err := install.CombinedOutput(); err != nil {
		return "", errors.New(string(output))
	}
	return filepath.Join(dir, "helm"), nil
})

// Run runs Helm with the given values, and returns its output. An error has its complaints.
func Run(t testing.TB, values string, arguments ...string) (output string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds Helm")
	}
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := exec.Command(binary, append(arguments, "--values", path)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", errors.New(stdout.String() + stderr.String())
	}
	return stdout.String(), nil
}
