package lifecycle

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// Until the claims are listed, no object is taken for one without a claim.
func TestConformBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 2)
		s.server.unlisted = make(chan struct{})
		c := s.run(fleets(), fleet("2", "acme", 4))
		before := len(s.memory.Revisions(acme))
		failed := make(chan error, 1)
		go func() {
			_, err := c.Conform(t.Context(), c.Catalog.Policy("p"), fleet("2", "acme", 4))
			failed <- err
		}()
		synctest.Wait()
		if got := len(s.memory.Revisions(acme)); got != before {
			t.Errorf("before the claims are listed the ledger was written %d times, want never", got-before)
		}
		close(s.server.unlisted)
		s.must(<-failed)
		s.wantFinally("the claim follows", "acme uses 4, 0 in flight", "claim of acme for 4")
	})
}

// A process that has yet to list the claims does not know what a change is to be given up for.
func TestAbandonBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		c := s.paid(acme, 2)
		s.amend(c, 5, "1")
		s.request(c, 5, true)
		s.server.unlisted = make(chan struct{})
		s.run(nil, fleet("2", "acme", 5))
		time.Sleep(settledAfter)
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 2, 1 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
			t.Errorf("before the claims are listed (-want +got):\n%s", diff)
		}
		close(s.server.unlisted)
		s.wantFinally("the books follow the claim", "acme uses 5, 0 in flight", "claim of acme for 5")
	})
}

// Of an object that went away before the claims were listed, the release is awaited from when its
// claim is seen.
func TestObjectGoesBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 100)
		s.server.unlisted = make(chan struct{})
		c := s.run(fleets(), fleet("1", "acme", 100))
		synctest.Wait()
		s.must(s.metadata.Tracker().Delete(fleetResource, "ns", "a"))
		s.must(s.live.Tracker().Delete(fleetResource, "ns", "a"))
		synctest.Wait()
		isHeldUp := true
		s.server.mu.Lock()
		s.server.fail = func(method, _ string) bool { return method == http.MethodDelete && isHeldUp }
		s.server.mu.Unlock()
		close(s.server.unlisted)
		synctest.Wait()
		decided := make(chan ledger.Decision, 1)
		go func() {
			decision, _ := c.Store.Reserve(t.Context(), acme, ledger.Reservation{Key: ledgerstore.ObjectKey("q", "waits"), Charges: charges(50)})
			decided <- decision
		}()
		synctest.Wait()
		s.server.mu.Lock()
		isHeldUp = false
		s.server.mu.Unlock()
		if decision := <-decided; decision.Code != ledger.Admitted {
			t.Errorf("got %s, want what the object has freed", decision.Code)
		}
		synctest.Wait()
	})
}
