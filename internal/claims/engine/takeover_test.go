package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Another replica takes a reservation over for a create of the same name, after this one has checked the reservation
// and before its claim is Granted. The object exists after all: the engine replaces its uncharged claim by another
// one.
func TestTakenOverWhileGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 5)
		c := s.standing(s.store)
		second := ledger.Reservation{Key: reservation.Key + "2", ReservedAt: 1, Charges: reservation.Charges, Claim: reservation.Claim}
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPut {
				s.server.Intercept(nil)
				_, err := s.store.Apply(s.Context(), acme, ledgerstore.Request{
					Reservations: []ledger.Reservation{second}, TakesOver: true, Instead: map[string]string{second.Key: reservation.Key},
				})
				s.must(err)
			}
			return false
		})
		if _, err := c.Engine.Materialize(t.Context(), reservation); err != nil {
			t.Fatal(err)
		}
		s.must(s.store.Cancel(s.Context(), acme, second.Key, 0))
		s.run(fleets(), fleet("1", "acme", 5)).Engine.Restore(theFleet, "p")
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 5, 0 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
			t.Errorf("the object is charged once (-want +got):\n%s", diff)
		}
	})
}

// A process dies after sending the claim of a reservation withdrawn by another process. The ledger has no charge for
// that claim, so it goes, and the object gets another one.
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
		if diff := cmp.Diff([]string{"acme uses 5, 0 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
			t.Errorf("the object is charged once (-want +got):\n%s", diff)
		}
	})
}
