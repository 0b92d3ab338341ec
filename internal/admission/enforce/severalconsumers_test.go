package enforce

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A create beyond the quota of one of its consumers holds nothing of the others, even while it waits.
func TestDeniedCreateHoldsNothingOfOtherConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		acme, globex := organization("acme"), organization("globex")
		s.hold(s.Store, "globex")
		s.Store.ExpectRelease(globex, "others")
		written := len(s.memory.Revisions(acme))
		time.AfterFunc(100*time.Millisecond, func() { s.Store.ReleaseDone(globex, "others") })
		s.wantDenied(s.review("1"), http.StatusForbidden, "Organization globex")
		if got := len(s.memory.Revisions(acme)); got != written {
			t.Errorf("the ledger of acme was written %d times for an object that globex cannot pay for", got-written)
		}
	})
}

// A denial by several consumers says where the next one begins.
func TestDenialBySeveralConsumers(t *testing.T) {
	s := newScene(t, 0)
	s.wantDenied(s.review("1"), http.StatusForbidden, "exceeded quota: ConfigMap quota of Organization acme", "grant; also exceeded quota: ConfigMap quota of Organization globex")
}

// A create may hold quota only until the decision for another consumer. Such quota causes no denials.
func TestDenialWaitsForTentativeReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.policy("globex", "object.metadata.name == 'map-both'")
		acme, globex := organization("acme"), organization("globex")
		other := ledgerstore.New(t.Context(), s.memory.Connect(nil))
		var once sync.Once
		s.fault = func(call storagetest.Call) storagetest.Fault {
			if call == storagetest.Write { // acme's, after both consumers had room
				once.Do(func() {
					s.hold(other, "globex")
					s.Store.ExpectRelease(globex, "others")
				})
			}
			return storagetest.None
		}
		var reviews sync.WaitGroup
		defer reviews.Wait()
		reviews.Go(func() { s.wantDenied(s.review("both"), http.StatusForbidden, "Organization globex") })
		synctest.Wait()
		if got := len(s.memory.Snapshot(acme).Reservations); got != 1 {
			t.Fatalf("acme holds %d reservations, want that of the create that waits for globex", got)
		}
		time.AfterFunc(100*time.Millisecond, func() { s.Store.ReleaseDone(globex, "others") })
		if answer := s.review("acme-alone"); !answer.Allowed {
			t.Errorf("denied for what the other create gives back: %s", answer.Result.Message)
		}
	})
}

// hold reserves one map of an organization.
func (s *scene) hold(store *ledgerstore.Store, name string) {
	s.Helper()
	decision, err := storagetest.Reserve(s.Context(), store, organization(name), ledger.Reservation{
		Key: "other", Charges: []ledger.Charge{{ResourceType: "maps", Amount: 1}},
	})
	if err != nil || decision.Code != ledger.Admitted {
		s.Errorf("reserve: %v, %v", decision, err)
	}
}
