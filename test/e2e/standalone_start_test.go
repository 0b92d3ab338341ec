package e2e

import (
	"testing"

	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// TestCreatesWaitForTheStart creates a protected object once the API server serves, and before it enforces quota. The
// answer asks the client to repeat the create, and the client does.
func TestCreatesWaitForTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	takeServers(t, 1)
	first, err := server.Start(standalone.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	platform.DeclareMaps(t, first.Admin, 1)
	platform.ProtectMaps(t, first.Admin, "ConfigMap")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	answers := make(chan error, 1)
	second, err := server.Start(standalone.Options{DataDir: dir, OnServing: func(kubeconfig string) {
		go func() {
			early, err := server.Connect(kubeconfig)
			if err == nil {
				err = early.Admin.Create(t.Context(), platform.Map(1))
			}
			answers <- err
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	if err := await.Receive(t, soon, answers); err != nil {
		t.Errorf("a create during the start: %v", err)
	}
	if err := second.Admin.Create(t.Context(), platform.Map(2)); !platform.IsExceeded(err) {
		t.Errorf("a create beyond the limit: %v", err)
	}
}
