package enforce

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// inventoryByHand is an inventory without watches. A test shows it objects.
type inventoryByHand struct{ *watcher.Watcher }

func (inventoryByHand) CatchUp(context.Context, []string) error { return nil }
func (inventoryByHand) Refresh()                                {}

// What the inventory shows is in use: a denial does not blame a request in flight for it, although the ledger observes
// the object only with its next decision.
func TestSeenObjectIsNotHeldInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 5)
		acme, kind := organization("acme"), inventory.NameOf(configMap)
		seen := inventory.New()
		maps := seen.Add(kind, types.NamespacedName.String)
		maps.Replace(ledger.Basis{Objects: 1, Policies: 1}, slices.Values([]inventory.Object(nil)))
		s.Store.Inventory = inventoryByHand{&watcher.Watcher{Inventory: seen}}
		demand := []ledger.Charge{{ResourceType: "maps", Amount: 4}}
		decision, err := storagetest.Reserve(t.Context(), s.Store, acme, ledger.Reservation{
			Key: ledgerstore.ObjectKey("p", "1"), Charges: demand, Awaits: &ledger.Awaited{Kind: kind, ID: "1", Policies: 1},
		})
		if err != nil || decision.Code != ledger.Admitted {
			t.Fatalf("got %+v, %v", decision, err)
		}

		before, _ := s.unconfirmedReservations(acme)
		maps.Set(inventory.Object{UID: "1", Version: 2, Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: demand}}})
		after, _ := s.unconfirmedReservations(acme)

		if len(before) != 1 || len(after) != 0 {
			t.Errorf("held in flight are %+v, and %+v after the object was seen", before, after)
		}
	})
}
