package bucket

import (
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// pair is a resource type with a dimension set. Without dimensions it stands for the whole resource type.
type pair struct {
	resourceType string
	dimensions   ledger.Dimensions
}

// heldIn returns the amounts of the overdue reservations that a ledger still has.
func heldIn(l *ledger.Ledger, overdue []ledgerstore.InFlight) map[pair]ledger.Amount {
	amounts := map[pair]ledger.Amount{}
	for _, late := range overdue {
		r, ok := l.Reservation(late.Key)
		if !ok || r.Sequence != late.Sequence {
			continue
		}
		for _, charge := range r.Charges { // a part of the reserved amounts, so the sums fit
			amounts[pair{resourceType: charge.ResourceType}] += charge.Amount
			if !charge.Dimensions.IsZero() {
				amounts[pair{charge.ResourceType, charge.Dimensions}] += charge.Amount
			}
		}
	}
	return amounts
}
