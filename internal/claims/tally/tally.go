package tally

import (
	"maps"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Tally adds up the claims of a consumer, for comparison with its ledger as of the same version of the API server. It
// leaves out everything in flight in that ledger, so the two agree also under load.
type Tally struct {
	inFlight InFlight
	used     []ledger.Usage
	sums     sums
}

// New returns the tally for a ledger, without any claim.
func New(spec *quotav1alpha1.ConsumerLedgerSpec) (*Tally, error) {
	snapshot, err := ledgerstore.SnapshotOf(spec)
	if err != nil {
		return nil, err
	}
	inFlight := inFlightIn(slices.Values(snapshot.Reservations), slices.Values(snapshot.Released), snapshot.Withdrawn)
	return &Tally{inFlight: inFlight, used: usedByClaims(&snapshot)}, nil
}

// usedByClaims returns the usage of a ledger with what it has observed of directly created claims.
func usedByClaims(snapshot *ledger.Snapshot) []ledger.Usage {
	balances := byKey(snapshot.Used)
	for _, o := range snapshot.Observations {
		if o.Kind != inventory.Claims {
			continue
		}
		for _, d := range o.Demands {
			key := balanceKey{d.ResourceType, d.Dimensions}
			u := usageOf(balances, key)
			u.Amount += d.Amount // the sum of an account is within its bounds
			u.Claims += d.Objects
			balances[key] = u
		}
	}
	maps.DeleteFunc(balances, func(_ balanceKey, u ledger.Usage) bool { return u.Amount == 0 && u.Claims == 0 })
	return inOrder(balances)
}

// Add adds a claim of the consumer.
func (t *Tally) Add(claim *claimcache.Claim) error {
	f := t.inFlight
	if !isHeld(claim) || claim.FromPolicy() && (f.isReserved(claim) || f.isReleased(claim)) {
		return nil
	}
	return t.sums.addClaim(claim)
}

// Difference returns the first balance with another usage in the ledger than by the claims, or twice the same usage.
func (t *Tally) Difference() (recorded, held ledger.Usage) {
	if drift := Compare(t.used, t.sums.usage()); len(drift) > 0 {
		recorded, held = drift[0].Observed, drift[0].Actual
	}
	return recorded, held
}
