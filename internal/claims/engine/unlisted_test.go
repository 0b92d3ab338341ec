package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// An object goes away before the first list of claims. Denials wait for its release once the cache has its claim.
// Denials wait for its release from the appearance of its claim on.
func TestObjectGoesBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 100)
		list := s.unlist()
		c := s.run(fleets(), fleet("1", "acme", 100))
		synctest.Wait()
		s.must(s.metadata.Tracker().Delete(fleetResource, "ns", "a"))
		synctest.Wait()
		s.server.Intercept(func(method, _ string) bool { return method == http.MethodDelete })
		list()
		synctest.Wait()
		decided := make(chan ledger.Decision, 1)
		go func() {
			decision, _ := storagetest.Reserve(t.Context(), c.Store, acme, ledger.Reservation{Key: ledgerstore.ObjectKey("q", "waits"), Charges: charges(50)})
			decided <- decision
		}()
		synctest.Wait()
		s.server.Intercept(nil)
		if decision := <-decided; decision.Code != ledger.Admitted {
			t.Errorf("got %s, want what the object has freed", decision.Code)
		}
		synctest.Wait()
	})
}

// A replica settles its own claims even before the first list of claims. Otherwise the reservations of a busy consumer
// add up for minutes after a start, until further creates fail.
func TestSettleBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		list := s.unlist()
		c := s.run(fleets(), fleet("1", "acme", 5))
		_, err := storagetest.Reserve(t.Context(), c.Store, acme, ledger.Reservation{
			Key: ledgerstore.ObjectKey("p", string(fleetUID)), Charges: charges(5), Claim: intent().Encode(),
		})
		s.must(err)
		c.Engine.Queue().Add(theFleet)
		s.wantFinally("the claim is there", "acme uses 5, 0 in flight", "claim of acme for 5")
		list()
		s.wantFinally("the list has it, too", "acme uses 5, 0 in flight", "claim of acme for 5")
	})
}

// A replica also releases its own claims before the first list of claims: it records the deletion.
func TestReleaseBeforeTheClaimsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		list := s.unlist()
		c := s.run(fleets(), fleet("1", "acme", 5))
		_, err := storagetest.Reserve(t.Context(), c.Store, acme, ledger.Reservation{
			Key: ledgerstore.ObjectKey("p", string(fleetUID)), Charges: charges(5), Claim: intent().Encode(),
		})
		s.must(err)
		c.Engine.Queue().Add(theFleet)
		s.wantFinally("the claim is there", "acme uses 5, 0 in flight", "claim of acme for 5")
		isDeleted := make(chan struct{})
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPatch {
				<-isDeleted // before the finalizer goes
			}
			return false
		})
		s.must(s.metadata.Tracker().Delete(fleetResource, "ns", "a"))
		synctest.Wait()
		known := c.Claims.ForObject(fleetUID)
		if len(known) != 1 || !known[0].Deleting {
			t.Errorf("the cache has %+v, want the claim, which is being deleted", known)
		}
		close(isDeleted)
		s.wantFinally("nothing is used")
		list()
		s.wantFinally("the list changes nothing")
	})
}
