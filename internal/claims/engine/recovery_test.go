package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/claims/engine"
)

// The engine looks again at an object with an unseen claim, for the claim may hold too little.
func TestConformBeforeTheClaimIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 2)
		s.store.Settle(acme, reservation.Key, reservation.Sequence)
		time.Sleep(settling)
		c := s.run(fleets(), fleet("2", "acme", 4))
		s.claim(reservation, true)
		result, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("2", "acme", 4))
		s.must(err)
		if result != engine.Pending {
			t.Errorf("got %d, want Pending", result)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 2, 0 in flight", "claim of acme for 2"}, s.outcome()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The engine repeats a failed request, and makes the claim.
func TestClaimIsMadeDespiteFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.reserve(acme, 2)
		failures := 3
		s.server.Intercept(func(method, _ string) bool {
			if method != http.MethodPost || failures == 0 {
				return false
			}
			failures--
			return true
		})
		s.run(fleets(), fleet("1", "acme", 2))
		s.wantFinally("the claim is made", "acme uses 2, 0 in flight", "claim of acme for 2")
		if failures > 0 {
			t.Errorf("%d failures were left", failures)
		}
	})
}
