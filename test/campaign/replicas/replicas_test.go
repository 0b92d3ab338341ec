package replicas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
)

// wantMaps waits until so many objects exist, and claims, the ledger and the bucket agree.
func (c *cluster) wantMaps(want int64) {
	c.Helper()
	c.eventually(func() error {
		objects, err := kit.CheckMaps(c.Context(), c, c.limit)
		if err == nil && objects != want {
			err = fmt.Errorf("%d objects exist, want %d", objects, want)
		}
		return err
	})
}

// TestReplicasAdmitExactly has many clients create at once, with reviews to all replicas.
func TestReplicasAdmitExactly(t *testing.T) {
	t.Parallel()
	const limit, clients, tries = 60, 12, 10
	c := newCluster(t, 3)
	c.protect(limit)
	var admitted, failed atomic.Int64
	var group errgroup.Group
	for n := range clients {
		group.Go(func() error {
			for i := range tries {
				switch err := c.Create(t.Context(), platform.Map(n*tries+i)); {
				case err == nil:
					admitted.Add(1)
				case !platform.IsExceeded(err):
					failed.Add(1)
					t.Errorf("create: %v", err)
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	if admitted.Load() != limit {
		t.Errorf("%d of %d creates were admitted, want %d", admitted.Load(), clients*tries, limit)
	}
	c.wantMaps(limit)
}

// TestReplicaDies kills the leader, and stops and continues the next one, while clients create and delete at the limit.
// The replicas admit nothing beyond it, nothing leaks, and the ledgers are right in the end.
func TestReplicaDies(t *testing.T) {
	t.Parallel()
	const limit, clients = 20, 8
	c := newCluster(t, 3)
	c.protect(limit)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var live, most, created atomic.Int64
	for n := range clients {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := platform.Map(n*100000 + i)
				if c.Create(t.Context(), m) != nil {
					continue // denied, or no replica answered
				}
				if now := live.Add(1); now > most.Load() {
					most.Store(now)
				}
				created.Add(1)
				live.Add(-1) // before the deletion: only objects that exist for certain count
				if err := c.Delete(t.Context(), m); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		began, before := time.Now(), created.Load()
		c.eventually(func() error {
			if done := created.Load() - before; done < 20 {
				return fmt.Errorf("after %s, %d objects were created", what, done)
			}
			return nil
		})
		t.Logf("%s: 20 creates took %s", what, time.Since(began).Round(time.Millisecond))
	}
	progress("the start")
	leader := c.leader()
	leader.Signal(syscall.SIGKILL)
	<-leader.Ended()
	progress("the end of the leader")
	c.start().WaitReady(t)
	progress("another has come")
	stopped := c.leader()
	stopped.Signal(syscall.SIGSTOP)
	progress("the leader stands still")
	c.eventually(func() error {
		if next := c.leader(); next == stopped {
			return fmt.Errorf("the one that stands still leads")
		}
		return nil
	})
	stopped.Resume(t)
	progress("it goes on without the lead")
	stop()
	group.Wait()
	if most.Load() > limit {
		t.Errorf("%d objects existed at a time, want at most %d", most.Load(), limit)
	}
	c.wantMaps(0)
}

// TestRollingUpgrade replaces every replica, one after the other, while clients create: no call fails.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	c.protect(1000000)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var created atomic.Int64
	for n := range 4 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := c.Create(t.Context(), platform.Map(n*100000+i)); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				created.Add(1)
			}
		})
	}
	for _, old := range c.replicas[:2] {
		c.start().WaitReady(t)
		old.Signal(syscall.SIGTERM)
		<-old.Ended()
		if code := old.ExitCode(); code != 0 {
			t.Errorf("a replica ended with exit code %d", code)
		}
	}
	stop()
	group.Wait()
	c.wantMaps(created.Load())
}
