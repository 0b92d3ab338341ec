package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/controlplane"
)

// startPlane starts a control plane of a test's own, without an operator, until the test ends.
func startPlane(t *testing.T) *apiserver.ControlPlane {
	t.Helper()
	takeServers(t, 1)
	return controlplane.Start(t)
}

// bare is a control plane without an operator. Tests of single duties of the operator share it.
type bare struct {
	plane *apiserver.ControlPlane
	api   kubernetes.Interface
}

// startBare starts it for the first test that needs it.
var startBare = sync.OnceValues(func() (*bare, error) {
	dir, err := os.MkdirTemp("", "bursar-test-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	plane, err := apiserver.Start(ctx, apiserver.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		cancel()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	atEnd(func() error {
		cancel()
		_ = await.End(plane.Wait) // the test is not about its end
		return os.RemoveAll(dir)
	})
	config := rest.CopyConfig(plane.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next} })
	api, err := kubernetes.NewForConfig(config)
	return &bare{plane, api}, err
})

func barePlane(t *testing.T) *bare {
	t.Helper()
	b, err := startBare()
	must(t, err)
	return b
}
