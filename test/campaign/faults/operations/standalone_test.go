package operations

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/process"
)

// TestStandaloneRestored goes back to a copy of a data directory: ledgers and objects are those of that time.
func TestStandaloneRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	server := process.Start(t, dir)
	c := &cluster{T: t, bin: t.TempDir()}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c.write(filepath.Join(c.bin, "kubectl"), "#!/bin/sh\nexec "+binary+" kubectl --kubeconfig "+server.Kubeconfig()+" \"$@\"\n")
	if versions := c.must("kubectl version"); strings.Count(versions, "v1.") != 2 {
		t.Errorf("client and server do not tell their versions: %s", versions)
	}
	c.installPlatform()
	server.Stop()
	copyDirectory(t, dir, backup)

	server = process.Start(t, dir)
	c.must("kubectl delete project web")
	c.finally(create + "mobile.yaml")
	c.must(create + "data.yaml")
	server.Stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	copyDirectory(t, backup, dir)

	process.Start(t, dir)
	c.must("kubectl get project web")
	c.must(create + "mobile.yaml")
	c.refused(create+"data.yaml", "used: 2, limited: 2")
}

func copyDirectory(t *testing.T, from, to string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}
