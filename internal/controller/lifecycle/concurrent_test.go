package lifecycle

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// othersUse has other objects use an amount of a consumer, so that what is taken from the books
// wrongly is missed.
func (s *stage) othersUse(consumer quotav1alpha1.ConsumerRef, amount int64) {
	s.Helper()
	key := ledgerstore.ObjectKey("p", "others")
	decision, err := s.store.Adopt(s.Context(), consumer, ledger.Reservation{Key: key, Charges: charges(amount), Claim: outline("").Encode()})
	s.must(err)
	s.store.Settle(consumer, key, decision.Sequence)
	synctest.Wait()
	time.Sleep(time.Second) // settling is lazy
}

// wantFinally waits until there is nothing left to wait for, and compares the outcome.
func (s *stage) wantFinally(reason string, want ...string) {
	s.Helper()
	time.Sleep(settledAfter)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

// The object goes away while it is being adopted: the claim that is on its way is cleaned up after
// it came, with the reservation it was made from.
func TestObjectGoesWhileItIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		c := s.run(nil, fleet("1", "acme", 5))
		if errs := c.Catalog.SetPolicy(fleets()); len(errs) > 0 {
			t.Fatal(errs)
		}
		isDeleted := false
		s.server.fail = func(method, _ string) bool {
			if method == http.MethodPost && !isDeleted {
				isDeleted = true
				s.server.mu.Unlock() // the request is on its way
				s.must(s.metadata.Tracker().Delete(fleetResource, "ns", "a"))
				s.must(s.live.Tracker().Delete(fleetResource, "ns", "a"))
				synctest.Wait()
				s.server.mu.Lock()
			}
			return false
		}
		_, err := c.Conform(t.Context(), c.Catalog.Policy("p"), fleet("1", "acme", 5))
		s.must(err)
		if !isDeleted {
			t.Fatal("the object was not adopted")
		}
		s.wantFinally("what others use stays in the books", "acme uses 10, 0 in flight")
	})
}
