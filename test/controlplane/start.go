// Package controlplane starts control planes for tests.
package controlplane

import (
	"context"
	"testing"

	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

// Start starts a control plane for one test, without an operator. It ends with the test.
func Start(t *testing.T) *apiserver.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	plane, err := apiserver.Start(ctx, apiserver.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0", RequestTimeout: process.RequestTimeout})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := await.End(plane.Wait); err != nil {
			t.Logf("the end of the control plane: %v", err) // it is not under test
		}
	})
	return plane
}
