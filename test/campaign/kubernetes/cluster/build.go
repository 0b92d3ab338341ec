package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Build builds Kubernetes and returns the path of the binary, whose first argument is the component to
// run. It stays in the module's bin folder, where later runs, and tests that run at the same time, find it.
var Build = sync.OnceValues(func() (string, error) {
	root, err := goTool("", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	// One at a time: Go leaves a binary that is up to date alone, and would replace one that runs.
	lock, err := os.OpenFile(filepath.Join(bin, "kubernetes.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	// A test depends on what it reads, and is not answered from the test cache when that has changed.
	for _, source := range []string{"go.mod", "go.sum", "test/campaign/kubernetes/components/main.go"} {
		if _, err := os.ReadFile(filepath.Join(root, source)); err != nil {
			return "", err
		}
	}
	version, err := goTool(root, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(bin, "kubernetes")
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	_, err = goTool(root, "build", "-tags", "kubernetes", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./test/campaign/kubernetes/components")
	return binary, err
})

func goTool(dir string, arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", arguments[0], err, stderr.String())
	}
	return strings.TrimSpace(string(output)), nil
}
