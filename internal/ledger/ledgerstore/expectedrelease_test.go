package ledgerstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A request does not wait for releases. The committer still decides it again with its batch, and admits it if another
// process has made room.
func TestRoomIsMadeWhileABatchIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, open := storagetest.New(), make(gate)
		p, other := start(t, memory, open.faults), start(t, memory, nil)
		other.limit(t, 10)
		other.reserve(t, "used", 9)
		p.ExpectRelease(acme, "used")
		p.Inventory.(*inventoryOf).show(widgets, "seen", nextVersion(), 1)
		p.ObjectChanged("seen", []quotav1alpha1.ConsumerRef{acme}) // the next batch becomes a write
		done := make(chan error, 1)
		go func() {
			ctx := ledgerstore.WithRetryUntil(t.Context(), time.Now().Add(time.Minute))
			decision, err := storagetest.Reserve(ctx, p, acme, reservation("new", 5))
			if err == nil && decision.Code != ledger.Admitted {
				t.Errorf("decided %s although there is room", decision.Code)
			}
			done <- err
		}()
		synctest.Wait()
		cancel(t, other, "used")
		p.ReleaseDone(acme, "used")
		close(open)
		if err := <-done; err != nil {
			t.Errorf("got %v although there is room", err)
		}
	})
}

// A deletion that finalizers hold makes denials wait for a moment only. The end of the object renews the wait.
func TestDenialsWaitForBegunDeletions(t *testing.T) {
	tests := map[string]struct {
		reason   string
		announce func(p *process)
		later    time.Duration
		want     time.Duration
	}{
		"at once":          {"the object may be gone in a moment", func(p *process) { p.ExpectDeletion(acme, "c") }, 0, 3 * time.Second},
		"a little later":   {"the wait that began is not cut short", func(p *process) { p.ExpectDeletion(acme, "c") }, 2 * time.Second, 3 * time.Second},
		"finalizers stay":  {"nobody knows when the object will be gone", func(p *process) { p.ExpectDeletion(acme, "c") }, 4 * time.Second, 0},
		"the object ended": {"its quota returns soon", func(p *process) { p.ExpectDeletion(acme, "c"); p.ExpectRelease(acme, "c") }, 4 * time.Second, 3 * time.Second},
		"the other way":    {"an earlier promise holds", func(p *process) { p.ExpectRelease(acme, "c"); p.ExpectDeletion(acme, "c") }, 4 * time.Second, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, storagetest.New(), nil)
				p.limit(t, 10)
				p.use(t, "k", 10)
				tt.announce(p)
				time.Sleep(tt.later)

				began := time.Now()
				if got := p.reserve(t, "new", 1); got.Code != ledger.Exceeded {
					t.Errorf("%s: decided %s", tt.reason, got.Code)
				}
				if got := time.Since(began); got != tt.want {
					t.Errorf("%s: the denial took %s, want %s", tt.reason, got, tt.want)
				}
			})
		})
	}
}

// Each request that waits holds a place in the API server. Of very many denials, most do not wait.
func TestFewDenialsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, waitingMax = 200, 64
		p := start(t, storagetest.New(), nil)
		p.limit(t, 10)
		p.use(t, "k", 10)
		for range 2 { // places are free again after a wait
			p.ExpectRelease(acme, "c")
			var atOnce, answers atomic.Int32
			var all sync.WaitGroup
			began := time.Now()
			for n := range requests {
				all.Go(func() {
					p.reserve(t, fmt.Sprint("new", n), 1)
					answers.Add(1)
					if time.Since(began) == 0 {
						atOnce.Add(1)
					}
				})
			}
			all.Wait()
			if got := atOnce.Load(); answers.Load() != requests || got != requests-waitingMax {
				t.Errorf("%d of %d denials came at once, want all but %d", got, requests, waitingMax)
			}
		}

		p.ExpectRelease(acme, "c")
		canceled, cancel := context.WithCancel(t.Context())
		for n := range waitingMax {
			go p.Apply(canceled, acme, ledgerstore.Request{Reservations: []ledger.Reservation{reservation(fmt.Sprint("left", n), 1)}}) //nolint:errcheck // the caller leaves
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		began := time.Now()
		p.reserve(t, "after they left", 1)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the waiting callers left, and the next denial took %s", took)
		}
	})
}
