package ledgerstore_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

const feature = "features/beta"

type onlyFeatures struct{}

func (onlyFeatures) IsCountedOnly(resourceType string) bool { return resourceType == feature }

func withFeature(key string, amount, of ledger.Amount) ledger.Reservation {
	r := awaiting(key, amount)
	r.Charges = append(r.Charges, ledger.Charge{ResourceType: feature, Amount: of})
	return r
}

// A counted type beside an enforced one neither denies a create, nor makes it wait for a write.
func TestCountedTypeInEscrow(t *testing.T) {
	inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.Types = onlyFeatures{}
		p.limit(t, 10_000)
		escrow := func(r ledger.Reservation) bool {
			return p.Escrow(acme, []ledger.Reservation{r}, ledgerstore.Spare{})
		}
		escrow(withFeature("p/before", 2, 1))
		escrow(withFeature("p/first", 2, 1))
		if d, err := storagetest.Reserve(t.Context(), p, acme, withFeature("p/first", 4, 1)); err != nil || d.Code != ledger.Admitted {
			t.Fatalf("%+v, %v", d, err)
		}
		expectSlices(t, "of the enforced type", memory, 8)
		if !escrow(withFeature("p/a", 4, 1000)) {
			t.Error("the feature keeps the slice from admitting")
		}
		if escrow(ledger.Reservation{Key: "p/b", Claim: "c", Awaits: awaiting("p/b", 1).Awaits, Charges: []ledger.Charge{{ResourceType: feature, Amount: 1}}}) {
			t.Error("a feature alone was admitted, and no slice tells others to look for its object")
		}
		if escrow(withFeature("p/c", 1, ledger.AmountMax)) {
			t.Error("admitted what the ledger may not be able to count")
		}
		<-time.After(4 * time.Second)
		if got := memory.Snapshot(acme); len(got.Reservations) != 2 || got.Reservations[1].Charges[1].Amount != 1000 {
			t.Errorf("the ledger has %+v", got.Reservations)
		}
	})(t)
}
