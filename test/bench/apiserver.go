package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/standalone/apiserver"
)

// apiServerMode is the first argument of this program as an API server. bench starts the API server as a process of its
// own, to tell its use of the machine from the use by clients.
const apiServerMode = "apiserver"

// startAPIServer starts an API server without quota on a directory.
func startAPIServer(ctx context.Context, dir string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, apiServerMode, dir)
	var said bytes.Buffer // of interest only if it does not start
	command.Stderr = &said
	server, err := startChild(command)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &said)
	}
	return server, nil
}

// runAPIServer runs this process until ctx ends.
func runAPIServer(ctx context.Context, dir string) error {
	plane, err := apiserver.Start(ctx, apiserver.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	err = plane.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// apiServerMetrics reads the metrics of the API server with its state in a directory.
func apiServerMetrics(ctx context.Context, dir string) ([]byte, error) {
	admin, err := adminOf(dir)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	return api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
}
