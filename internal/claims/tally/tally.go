package tally

import (
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Tally adds up the claims of a consumer, for comparison with its ledger as of the same version of the API server. It
// leaves out everything in flight in that ledger, so the two agree also under load.
type Tally struct {
	inFlight InFlight
	used     []ledger.Usage
	sums     sums
	// amended are the amendments with a claim so far.
	amended map[string]bool
}

// New returns the tally for a ledger, without any claim.
func New(spec *quotav1alpha1.ConsumerLedgerSpec) (*Tally, error) {
	snapshot, err := ledgerstore.SnapshotOf(spec)
	if err != nil {
		return nil, err
	}
	inFlight := inFlightIn(slices.Values(snapshot.Reservations), slices.Values(snapshot.Released), snapshot.Withdrawn)
	used := slices.DeleteFunc(snapshot.Used, func(u ledger.Usage) bool { return u.Amount == 0 && u.Claims == 0 })
	return &Tally{inFlight: inFlight, used: used}, nil
}

// Add adds a claim of the consumer.
func (t *Tally) Add(claim *claimcache.Claim) error {
	f := t.inFlight
	amendment := f.amendmentOf(claim)
	switch {
	case !Holds(claim), f.isReserved(claim), f.isReleased(claim):
		return nil
	case amendment == "":
		return t.sums.addClaim(claim)
	case t.amended[amendment]:
		return fmt.Errorf("two claims have the amendment %s", amendment)
	}
	if t.amended == nil {
		t.amended = map[string]bool{}
	}
	t.amended[amendment] = true
	if err := t.sums.add(f.amended[amendment]); err != nil {
		return fmt.Errorf("amendment %s: %w", amendment, err)
	}
	return nil
}

// Difference returns the first balance with another usage in the ledger than by the claims, or twice the same usage. It
// fails while the two cannot be compared: an amendment may outlive its claim for a moment.
func (t *Tally) Difference() (recorded, held ledger.Usage, err error) {
	all, err := t.held()
	if err != nil {
		return recorded, held, err
	}
	if drift := Compare(t.used, all); len(drift) > 0 {
		recorded, held = drift[0].Observed, drift[0].Actual
	}
	return recorded, held, nil
}

// held returns the right usage of the ledger. It fails if claims and amendments do not match.
func (t *Tally) held() ([]ledger.Usage, error) {
	if len(t.amended) != len(t.inFlight.amended) {
		return nil, fmt.Errorf("of %d amendments %d have a claim", len(t.inFlight.amended), len(t.amended))
	}
	return t.sums.usage(), nil
}
