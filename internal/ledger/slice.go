package ledger

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// Slice is quota held by one process ahead of demand, to admit requests without a write to the ledger. The process
// turns its admissions into reservations later, see [Ledger.ReserveInSlice], or ends them, see [Ledger.EndInSlice].
// Until then the slice covers them: nobody else can get this quota. A slice pays for charges without dimensions. It
// counts in decisions, and is neither used nor reserved for display.
type Slice struct {
	// Holder identifies the process.
	Holder string
	// WrittenAt is the time of the holder's latest write of the ledger, in seconds since 1970. The ledger does not use it.
	WrittenAt int64
	// IsRevoked is true once another process found that the holder no longer writes. The holder admits nothing from a
	// revoked slice.
	IsRevoked bool
	// Amounts are positive, by resource type.
	Amounts map[string]Amount
}

const (
	// SlicesMax is the largest number of slices of a ledger.
	SlicesMax = 16
	// HolderBytesMax is the length of the longest holder.
	HolderBytesMax = 253
)

// Slice returns the slice of a holder.
func (l *Ledger) Slice(holder string) (Slice, bool) {
	s, ok := l.slices[holder]
	s.Amounts = maps.Clone(s.Amounts)
	return s, ok
}

// Slices yields the slices in the order of their holders. Changes during the iteration do not affect it.
func (l *Ledger) Slices() iter.Seq[Slice] {
	all := make([]Slice, 0, len(l.slices))
	for _, holder := range sortedKeys(l.slices) {
		s, _ := l.Slice(holder)
		all = append(all, s)
	}
	return slices.Values(all)
}

// SliceCount returns the number of slices.
func (l *Ledger) SliceCount() int { return len(l.slices) }

// Sliced returns the amount of a resource type in all slices.
func (l *Ledger) Sliced(resourceType string) Amount {
	if a := l.accounts[resourceType]; a != nil {
		return a.sliced
	}
	return 0
}

// AvailableToSlice returns the largest possible amount in the slice of a holder: the amount payable without this slice.
func (l *Ledger) AvailableToSlice(holder, resourceType string) Amount {
	a, held := l.accounts[resourceType], l.slices[holder].Amounts[resourceType]
	switch {
	case a == nil:
		return 0
	case held == 0:
		return a.available(Dimensions{})
	}
	a.resizeSlice(held, 0)
	available := a.available(Dimensions{})
	a.resizeSlice(0, held)
	return available
}

// SetSlice adds, replaces or, without amounts, removes the slice of a holder. It ignores limits: the caller compares
// with [Ledger.Available]. It reports false, and changes nothing, if the slice is invalid or does not fit: a sum would
// overflow, there are too many slices or balances, or the ledger would be larger than its budget. A smaller slice
// always fits.
func (l *Ledger) SetSlice(s Slice) bool { return l.setSlice(s, BytesMax) }

// ShrinkSlice replaces a slice by a smaller one of the same holder. Unlike [Ledger.SetSlice] it ignores the budget.
func (l *Ledger) ShrinkSlice(s Slice) { l.setSlice(s, math.MaxInt) }

func (l *Ledger) setSlice(s Slice, bytesMax int) bool {
	before := l.slices[s.Holder]
	if !l.canSetSlice(&s, &before, bytesMax) {
		return false
	}
	for _, resourceType := range sortedKeys(before.Amounts) {
		if s.Amounts[resourceType] == 0 {
			l.resizeSlice(resourceType, before.Amounts[resourceType], 0)
		}
	}
	for _, resourceType := range sortedKeys(s.Amounts) {
		l.resizeSlice(resourceType, before.Amounts[resourceType], s.Amounts[resourceType])
	}
	l.bytes.slices += s.size() - before.size()
	if len(s.Amounts) == 0 {
		drop(&l.log, l.slices, s.Holder)
		return true
	}
	s.Amounts = maps.Clone(s.Amounts)
	put(&l.log, l.slices, s.Holder, s)
	return true
}

// canSetSlice reports whether a slice is valid and fits instead of the former one of its holder.
func (l *Ledger) canSetSlice(s, before *Slice, bytesMax int) bool {
	if s.Holder == "" || len(s.Holder) > HolderBytesMax || len(s.Amounts) > ChargesMax || before.Holder == "" && len(l.slices) >= SlicesMax {
		return false
	}
	size := s.size() - before.size()
	for resourceType, amount := range s.Amounts {
		if amount <= 0 || !validResourceType(resourceType) {
			return false
		}
		a := l.accounts[resourceType]
		if a == nil {
			a = newAccount(resourceType, &Ledger{}) // to compare with its bounds
		}
		if !a.hasBalance(Dimensions{}) {
			size += a.demandSize(Dimensions{})
		}
		if !a.canHold(amount - before.Amounts[resourceType]) {
			return false
		}
	}
	return size <= 0 || l.Bytes()+size <= bytesMax
}

// canHold reports whether slices of the account may grow by an amount, apart from the limit.
func (a *account) canHold(more Amount) bool {
	defer a.endTransaction()
	_, fits := a.total().Add(more)
	return (fits || more <= 0) && a.needBalance(Dimensions{})
}

// resizeSlice changes the amount of one resource type of a slice.
func (l *Ledger) resizeSlice(resourceType string, before, after Amount) {
	a := l.accountOf(resourceType)
	a.resizeSlice(before, after)
	l.pruneAccount(resourceType)
}

// RevokeSlice marks a slice as revoked, and reports whether there was an unrevoked one.
func (l *Ledger) RevokeSlice(holder string) bool {
	s, ok := l.slices[holder]
	if !ok || s.IsRevoked {
		return false
	}
	s.IsRevoked = true
	put(&l.log, l.slices, holder, s)
	return true
}

// DropSlice removes a slice, and reports whether there was one.
func (l *Ledger) DropSlice(holder string) bool {
	if _, ok := l.slices[holder]; !ok {
		return false
	}
	return l.setSlice(Slice{Holder: holder}, math.MaxInt)
}

// DropSlices removes all slices except a holder's.
func (l *Ledger) DropSlices(except string) {
	for _, holder := range sortedKeys(l.slices) {
		if holder != except {
			l.DropSlice(holder)
		}
	}
}

// ReserveInSlice adds a reservation admitted by the holder of a slice, and not ended by [Ledger.EndInSlice] with the
// same keep: its charges leave the slice. It ignores limits and the budget of bytes, because the slice was within them.
// If the slice has less, or does not exist, the difference is overdraft. It is otherwise like [Ledger.Reserve].
//
// After a write with an unknown outcome, another observer may already have ended a first reservation of the request. A
// second one then takes nothing from what the slice must go on covering.
func (l *Ledger) ReserveInSlice(holder string, r Reservation, keep map[string]Amount) Decision {
	trial := l.Begin()
	if _, isReserved := l.reservations[r.Key]; !isReserved {
		l.takeFromSlice(holder, r.Charges, keep)
	}
	d := l.reserveOverdraft(r, math.MaxInt)
	if d.Code != Admitted {
		trial.Discard()
		return d
	}
	trial.Keep()
	return d
}

// takeFromSlice takes charges from a slice, as far as it has more than the amounts to keep, by resource type.
func (l *Ledger) takeFromSlice(holder string, charges []Charge, keep map[string]Amount) {
	s, isKnown := l.Slice(holder)
	if !isKnown {
		return
	}
	for i := range charges {
		c := &charges[i]
		held := s.Amounts[c.ResourceType]
		rest := max(held-c.Amount, min(held, keep[c.ResourceType]))
		switch {
		case !c.Dimensions.IsZero():
		case rest > 0:
			s.Amounts[c.ResourceType] = rest
		default:
			delete(s.Amounts, c.ResourceType)
		}
	}
	l.setSlice(s, math.MaxInt)
}

// resizeSlice changes the part of the account in slices by the difference of two amounts. It ignores the limit.
func (a *account) resizeSlice(before, after Amount) {
	b := a.balances[Dimensions{}]
	b.sliced += after - before
	a.changeBalance(Dimensions{}, b)
}

const (
	sliceBytes  = 88
	amountBytes = 48
)

// size bounds from above the stored bytes of the slice. Storage has no slice without amounts.
func (s *Slice) size() int {
	if len(s.Amounts) == 0 {
		return 0
	}
	size := sliceBytes + jsonLen(s.Holder)
	for resourceType := range s.Amounts {
		size += amountBytes + jsonLen(resourceType)
	}
	return size
}

func (l *Ledger) restoreSlices(stored []Slice) error {
	for i := range stored {
		s := &stored[i]
		if _, isRepeated := l.slices[s.Holder]; isRepeated || len(s.Amounts) == 0 || !l.setSlice(*s, math.MaxInt) {
			return fmt.Errorf("the slice of %q is repeated, empty, invalid or too large", s.Holder)
		}
	}
	return nil
}
