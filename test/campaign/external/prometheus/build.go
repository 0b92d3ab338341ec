// Package prometheus tests the alerts and the dashboard with a real Prometheus.
package prometheus

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// build builds prometheus and promtool, from a module of their own, once for all tests and returns the folder they are
// in.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bursar-prometheus-")
	if err != nil {
		return "", err
	}
	const module = "github.com/prometheus/prometheus/cmd/"
	// It needs no discovery in clouds. Their libraries would be most of the binary.
	command := exec.Command("go", "build", "-tags", "remove_all_sd", "-ldflags", "-s -w", "-o", dir+"/", module+"prometheus", module+"promtool")
	command.Dir = "components"
	command.Env = append(os.Environ(), "GOFLAGS=")
	if output, err := command.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(output)))
	}
	return dir, nil
})

// program returns the path of a program, prometheus or promtool.
func program(name string) (string, error) {
	dir, err := build()
	return filepath.Join(dir, name), err
}
