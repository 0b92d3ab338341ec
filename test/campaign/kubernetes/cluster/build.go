package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const sources = "test/campaign/kubernetes"

// minorOf returns 1.33 of v1.33.13.
func minorOf(version string) string {
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return strings.Join(numbers[:min(2, len(numbers))], ".")
}

// Build builds Kubernetes from Bursar's own modules and returns the path of the binary. The binary's first argument is
// the component to run. It stays in the module's bin folder, where later and concurrent tests find it.
var Build = sync.OnceValues(func() (string, error) {
	return build("kubernetes", "", "-tags", "kubernetes", "./"+sources+"/components")
})

// buildMinor builds kube-apiserver and kube-controller-manager of the minor version in the variable KUBERNETES_MINOR,
// such as 1.33, from modules of their own, and returns the path of the binary. Without the variable it returns the
// binary of Build.
var buildMinor = sync.OnceValues(func() (string, error) {
	own, err := goTool("", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	minor := os.Getenv("KUBERNETES_MINOR")
	if minor == "" || minor == minorOf(own) {
		return Build()
	}
	return build("kubernetes-"+minor, sources+"/minors", "-modfile="+minor+".mod", ".")
})

// build builds a command in a folder of the module into its bin folder.
func build(name, folder string, arguments ...string) (string, error) {
	root, err := goTool("", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	// One at a time: Go leaves an up-to-date binary alone, and would replace a running one.
	lock, err := os.OpenFile(filepath.Join(bin, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := touchSources(root); err != nil {
		return "", err
	}
	dir := filepath.Join(root, folder)
	version, err := goTool(dir, slices.Concat([]string{"list", "-m", "-f", "{{.Version}}"}, modfile(arguments), []string{"k8s.io/kubernetes"})...)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(bin, name)
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	_, err = goTool(dir, slices.Concat([]string{"build", "-buildvcs=false", "-ldflags", flags, "-o", binary}, arguments)...)
	return binary, err
}

// modfile returns the arguments of a build with its choice of modules.
func modfile(arguments []string) []string {
	if strings.HasPrefix(arguments[0], "-modfile=") {
		return arguments[:1]
	}
	return nil
}

// touchSources reads the sources of Kubernetes. A test depends on the files it reads, and after a change of them its
// answer does not come from the test cache.
func touchSources(root string) error {
	files, err := filepath.Glob(filepath.Join(root, sources, "minors", "*"))
	if err != nil {
		return err
	}
	for _, source := range []string{"go.mod", "go.sum", sources + "/components/main.go"} {
		files = append(files, filepath.Join(root, source))
	}
	for _, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			return err
		}
	}
	return nil
}

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
