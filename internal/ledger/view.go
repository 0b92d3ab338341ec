package ledger

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Account is the state of one resource type over all dimensions, for display.
type Account struct {
	// Limit is the sum of all allowances.
	Limit Amount
	// Used is the demand of the observed objects.
	Used Amount
	// Reserved is the amount of reservations.
	Reserved Amount
	// Available is Limit minus Used and Reserved, and at least 0. With selectors a particular request may get less.
	// While some dimension set is overdrawn it may get more. [Ledger.Available] has the exact amount.
	Available Amount
	// Claims counts the observed objects, once for each dimension set of their charges.
	Claims int64
}

// Account returns the state of a resource type. It is zero if the type is unknown.
func (l *Ledger) Account(resourceType string) Account {
	a := l.accounts[resourceType]
	if a == nil {
		return Account{}
	}
	return Account{
		Limit: a.limit, Used: a.observed, Reserved: a.reserved,
		Available: max(0, a.limit-a.observed-a.reserved), Claims: a.objects,
	}
}

// Available returns the largest payable amount of a single charge besides the slices.
func (l *Ledger) Available(resourceType string, d Dimensions) Amount {
	a := l.accounts[resourceType]
	if a == nil {
		return 0
	}
	return a.available(d)
}

// Balance is the state of one dimension set of a resource type, for display.
type Balance struct {
	Dimensions Dimensions
	// Used is the demand of the observed objects.
	Used Amount
	// Reserved is the amount of reservations.
	Reserved Amount
	// Claims counts the observed objects.
	Claims int64
}

// Balances returns the dimension sets of a resource type with usage or reservations, in the order of
// [Dimensions.Compare].
func (l *Ledger) Balances(resourceType string) []Balance {
	a := l.accounts[resourceType]
	if a == nil {
		return nil
	}
	balances := make([]Balance, 0, len(a.balances))
	for _, d := range a.dimensionSets() {
		r := a.balances[d]
		balances = append(balances, Balance{Dimensions: d, Used: r.observed, Reserved: r.reserved, Claims: r.objects})
	}
	return balances
}

// HasBalance reports whether a resource type has a balance for the dimensions: then a charge needs no new one.
func (l *Ledger) HasBalance(resourceType string, d Dimensions) bool {
	a := l.accounts[resourceType]
	return a != nil && a.hasBalance(d)
}

// Matching returns the sum of the allowances with selectors for the dimensions. It is 0 for an unknown type.
func (l *Ledger) Matching(resourceType string, d Dimensions) Amount {
	a := l.accounts[resourceType]
	if a == nil {
		return 0
	}
	return a.matching(d)
}

// Matcher returns [Selector.Matches] in a form for many cheap calls.
func (s Selector) Matcher() func(Dimensions) bool {
	requirements := s.Requirements()
	return func(d Dimensions) bool { return matchesAll(requirements, d) }
}

// ResourceTypes returns the sorted types of all grants, usage and reservations.
func (l *Ledger) ResourceTypes() []string { return sortedKeys(l.accounts) }

// Sequence returns the sequence of the latest reservation, or 0 if there never was one.
func (l *Ledger) Sequence() int64 { return l.sequence }

// Reservation returns the reservation with a key. Do not modify its charges.
func (l *Ledger) Reservation(key string) (Reservation, bool) {
	r, ok := l.reservations[key]
	return r, ok
}

// ReservationCount returns the number of reservations.
func (l *Ledger) ReservationCount() int { return len(l.reservations) }

// ReservedBytes returns the sum of the sizes of the reservations, see [Reservation.Size].
func (l *Ledger) ReservedBytes() int { return l.bytes.reservations }

// Reservations yields the reservations in the order of their sequence. Changes during the iteration do not affect it.
// Do not modify the charges.
func (l *Ledger) Reservations() iter.Seq[Reservation] {
	return func(yield func(Reservation) bool) {
		inOrder := slices.SortedFunc(maps.Values(l.reservations), func(a, b Reservation) int {
			return cmp.Compare(a.Sequence, b.Sequence)
		})
		slices.Values(inOrder)(yield)
	}
}

// Grants yields the grants in the order of their UIDs. Do not modify their allowances.
func (l *Ledger) Grants() iter.Seq[Grant] {
	return func(yield func(Grant) bool) {
		for _, uid := range sortedKeys(l.grants) {
			if g, ok := l.grants[uid]; ok && !yield(g) {
				return
			}
		}
	}
}
