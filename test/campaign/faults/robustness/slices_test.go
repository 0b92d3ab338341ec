package robustness

import (
	"context"
	"testing"

	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

// TestKillWithSlices kills the server, with its API server and etcd, while it admits from quota reserved ahead of
// demand. Every object has one charge, and the reserved quota returns.
func TestKillWithSlices(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	const limit, clients = 4_000, 4
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	api := connect(t, server)
	platform.DeclareMaps(t, api, limit)
	platform.ProtectMaps(t, api, "ConfigMap")
	var churn kit.Churn
	for round := range process.Kills(t, kills) {
		ctx, stop := context.WithCancel(t.Context())
		for n := range clients {
			churn.Start(ctx, t, connect(t, server), round*clients+n)
		}
		before := churn.Created.Load()
		eventually(t, func() error { return churn.Advance(ctx, api, before, 50) })
		server.Kill()
		stop()
		churn.Wait()
		server, api = restart(t, dir)
	}
	t.Logf("%d objects were created", churn.Created.Load())
	eventually(t, func() error { return churn.Check(t.Context(), api, limit) })
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
}
