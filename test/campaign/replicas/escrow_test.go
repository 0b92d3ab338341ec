package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/replica"
)

// killsFrom returns how many replicas are killed or stopped: KILLS, or a few.
func killsFrom(t *testing.T) int {
	t.Helper()
	asked := os.Getenv("KILLS")
	if asked == "" {
		return 6
	}
	kills, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatalf("KILLS: %v", err)
	}
	return kills
}

// TestReplicasDieWithSlices kills and stops the replicas that admit from quota that they reserved ahead of demand. Every
// object is charged once, and what was reserved returns.
func TestReplicasDieWithSlices(t *testing.T) {
	t.Parallel()
	const limit, clients = 20_000, 4
	c := newCluster(t, 3)
	c.protect(limit)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var created, live atomic.Int64
	for n := range clients {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := platform.Map(n*1_000_000 + i)
				if err := c.Create(t.Context(), m); err != nil {
					if platform.IsExceeded(err) {
						t.Errorf("create: %v", err)
					}
					continue // nobody could be asked
				}
				created.Add(1)
				if i%8 == 0 {
					live.Add(1)
					continue
				}
				if err := c.Delete(t.Context(), m); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	alive := append([]*replica.Replica(nil), c.replicas...)
	for kill := range killsFrom(t) {
		before := created.Load()
		c.eventually(func() error {
			if c.sliced() == 0 || created.Load() < before+30 {
				return fmt.Errorf("after %d kills, no replica admits from a slice, or only %d objects were created", kill, created.Load()-before)
			}
			return nil
		})
		for i, r := range alive {
			if isEnded(r) { // it stood still while it led
				alive[i] = c.start()
			}
		}
		victim := random.IntN(len(alive))
		if kill%3 == 2 {
			pause := time.Duration(5+random.IntN(25)) * time.Second
			stopped := alive[victim]
			stopped.Signal(syscall.SIGSTOP)
			t.Logf("a replica stands still for %s", pause)
			time.AfterFunc(pause, func() { stopped.Signal(syscall.SIGCONT) })
			continue
		}
		alive[victim].Signal(syscall.SIGKILL)
		<-alive[victim].Ended()
		alive[victim] = c.start()
	}
	stop()
	group.Wait()
	t.Logf("%d objects were created", created.Load())
	c.eventually(func() error {
		if sliced := c.sliced(); sliced > 0 {
			return fmt.Errorf("%d are reserved ahead of demand", sliced)
		}
		objects, err := kit.CheckMaps(c.Context(), c, c.limit)
		if err == nil && objects < live.Load() { // of creates without an answer some exist too
			err = fmt.Errorf("%d objects exist, want %d", objects, live.Load())
		}
		return err
	})
}

func isEnded(r *replica.Replica) bool {
	select {
	case <-r.Ended():
		return true
	default:
		return false
	}
}

// sliced returns the sum of all slices.
func (c *cluster) sliced() (sum int64) {
	c.Helper()
	var ledgers quotav1alpha1.ConsumerLedgerList
	if err := c.List(c.Context(), &ledgers); err != nil {
		c.Fatal(err)
	}
	for i := range ledgers.Items {
		for _, s := range ledgers.Items[i].Spec.Slices {
			sum += s.Amounts[platform.MapsType]
		}
	}
	return sum
}
