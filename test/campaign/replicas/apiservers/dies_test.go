package apiservers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/test/etcd"
	"github.com/bursar/bursar/test/platform"
)

// TestServerDies kills the leading server while clients of the other create and delete at the limit, and starts it
// again. The servers admit nothing beyond the limit, nothing leaks, and the ledgers are right in the end.
func TestServerDies(t *testing.T) {
	t.Parallel()
	const limit, clients = 20, 8
	url := etcd.Start(t)
	servers := []*server{start(t, url, t.TempDir()), start(t, url, t.TempDir())} // the first one leads
	platform.DeclareMaps(t, servers[0], limit)
	platform.ProtectMaps(t, servers[0], "ConfigMap")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	var live, most, created atomic.Int64
	for n := range clients {
		api := servers[n%len(servers)]
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := platform.Map(n*1000000 + i)
				if api.Create(t.Context(), m) != nil {
					continue // denied, or no server answered
				}
				if now := live.Add(1); now > most.Load() {
					most.Store(now)
				}
				created.Add(1)
				live.Add(-1) // before the deletion: only objects that exist for certain count
				if err := api.Delete(t.Context(), m); err != nil && api == servers[1] {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		began, before := time.Now(), created.Load()
		eventually(t, func() error {
			if made := created.Load() - before; made < 3*limit {
				return fmt.Errorf("%s, %d objects were created", what, made)
			}
			return nil
		})
		t.Logf("%s, %d creates took %s", what, 3*limit, time.Since(began))
	}
	progress("with both servers")
	servers[0].Kill()
	progress("without the first")
	start(t, url, servers[0].dir)
	progress("with the first again")
	stop()
	group.Wait()
	if most.Load() > limit {
		t.Errorf("%d objects existed at once, want at most %d", most.Load(), limit)
	}
	wantMaps(t, servers[1], limit)
	// The new leader leads for policies as well.
	platform.ProtectMaps(t, servers[1], "Secret")
}
