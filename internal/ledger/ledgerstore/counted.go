package ledgerstore

import (
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// countedMax bounds a charge of a counted type without a write. With all reservations in flight, these charges stay far
// below [countedTotalMax]: the ledger can take them later.
const countedMax, countedTotalMax = ledger.Amount(1) << 40, ledger.AmountMax / 2

// counted maps each counted type in demand to whether the ledger certainly has room for more of it.
type counted map[string]bool

// setTypes sets the resource types to count only. Call it before there is a slice.
func (e *escrow) setTypes(types ledger.Types) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.types = types
}

// isCountedOnly reports whether the ledger only counts a resource type.
func (e *escrow) isCountedOnly(resourceType string) bool {
	return e.types != nil && e.types.IsCountedOnly(resourceType)
}

// enforced returns the charges for a slice to pay: all but those of counted types.
func (e *escrow) enforced(charges []ledger.Charge) []ledger.Charge {
	isCounted := func(c ledger.Charge) bool { return e.isCountedOnly(c.ResourceType) }
	if e.types == nil || !slices.ContainsFunc(charges, isCounted) {
		return charges
	}
	return slices.DeleteFunc(slices.Clone(charges), isCounted)
}

// canCountLocked reports whether the ledger can take the charges of counted types later.
func (e *escrow) canCountLocked(charges []ledger.Charge) bool {
	if e.types == nil {
		return true
	}
	for i := range charges {
		c := &charges[i]
		if !e.isCountedOnly(c.ResourceType) {
			continue
		}
		hasRoom, isKnown := e.counted[c.ResourceType]
		if !isKnown {
			if e.counted == nil {
				e.counted = counted{}
			}
			e.counted[c.ResourceType] = false // until the next commit
		}
		if !hasRoom || c.Amount > countedMax {
			return false
		}
	}
	return true
}

// updateCountedLocked finds the demanded counted types with room in a ledger.
func (e *escrow) updateCountedLocked(l *ledger.Ledger) {
	for resourceType := range e.counted {
		a := l.Account(resourceType)
		total, fits := a.Used.Add(a.Reserved)
		e.counted[resourceType] = fits && total < countedTotalMax && l.HasBalance(resourceType, ledger.Dimensions{})
	}
}
