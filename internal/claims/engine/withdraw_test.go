package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A process dies after sending the claim of a reservation withdrawn by another process. The ledger has no charge for
// that claim, so it goes.
func TestClaimOfAWithdrawnReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 5)
		isWithdrawn, err := s.store.Withdraw(s.Context(), acme, reservation.Key, reservation.Sequence)
		if s.must(err); !isWithdrawn {
			t.Fatal("the reservation was not withdrawn")
		}
		s.claim(reservation, true)
		running := s.run(fleets(), fleet("1", "acme", 5))
		running.Engine.Queue().Add(theFleet)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string(nil), s.outcome()); diff != "" {
			t.Errorf("a claim without a charge is left (-want +got):\n%s", diff)
		}
	})
}
