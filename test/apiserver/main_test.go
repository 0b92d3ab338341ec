// Package apiserver tests parts of Bursar with the API server of Kubernetes, where no other one will do. The tests are
// here, and not beside the code, so that one binary links that API server.
package apiserver

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/quiet"
)

// soon is longer than anything takes on a busy machine.
const soon = 30 * time.Second

// plane is shared by tests that are in nobody's way, and api talks to it.
var (
	plane *apiserver.ControlPlane
	api   kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return // all need a server
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	quiet.Libraries()
	dir, err := os.MkdirTemp("", "bursar-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // best effort
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if plane, err = apiserver.Start(ctx, apiserver.Options{DataDir: dir, Listen: "127.0.0.1:0"}); err != nil {
		return 0, err
	}
	config := rest.CopyConfig(plane.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next} })
	if api, err = kubernetes.NewForConfig(config); err != nil {
		return 0, err
	}
	code = m.Run()
	cancel()
	_ = plane.Wait() // how it ends is not what is tested
	return code, nil
}
