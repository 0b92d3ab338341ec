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

// held are the overdue reservations in a ledger.
type held struct {
	sequences map[string]int64 // by key
	amounts   map[pair]ledger.Amount
}

// heldIn returns the overdue reservations that a ledger still has.
func heldIn(l *ledger.Ledger, overdue []ledgerstore.InFlight) held {
	h := held{sequences: map[string]int64{}, amounts: map[pair]ledger.Amount{}}
	for _, late := range overdue {
		r, ok := l.Reservation(late.Key)
		if !ok || r.Sequence != late.Sequence {
			continue
		}
		h.sequences[r.Key] = r.Sequence
		for _, charge := range r.Charges { // a part of the reserved amounts, so the sums fit
			h.amounts[pair{resourceType: charge.ResourceType}] += charge.Amount
			if !charge.Dimensions.IsZero() {
				h.amounts[pair{charge.ResourceType, charge.Dimensions}] += charge.Amount
			}
		}
	}
	return h
}

func (h held) has(r ledger.Reservation) bool {
	sequence, ok := h.sequences[r.Key]
	return ok && sequence == r.Sequence
}
