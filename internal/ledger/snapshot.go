package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Usage is the usage of settled claims of one resource type and dimension set.
type Usage struct {
	ResourceType string
	Dimensions   Dimensions
	Amount       Amount
	// Claims is the number of those claims.
	Claims int64
}

// Snapshot is a ledger in plain form, for storing. [Ledger.Snapshot] gives every list in a fixed order: equal ledgers
// have equal snapshots. [Restore] accepts any order.
type Snapshot struct {
	// Sequence is the sequence of the latest reservation, even if it has ended.
	Sequence int64
	// Grants are sorted by UID.
	Grants []Grant
	// Observations are sorted by kind.
	Observations []Observation
	// Used is sorted by resource type and then dimensions. It is without what is observed.
	Used []Usage
	// Reservations are sorted by sequence.
	Reservations []Reservation
	// Released are the UIDs of released claims, sorted.
	Released []string
	// Slices are in the order of their holders.
	Slices []Slice
	// Journal are the records, or nil if the ledger keeps none.
	Journal *Journal
}

// Snapshot returns the plain form of the ledger. Later changes of the ledger do not affect it. It shares the lists of
// allowances and charges with the ledger: do not modify them.
func (l *Ledger) Snapshot() Snapshot {
	snapshot := Snapshot{
		Sequence:     l.sequence,
		Grants:       slices.Collect(l.Grants()),
		Observations: slices.Collect(l.Observations()),
		Used:         slices.Collect(l.Used()),
		Reservations: slices.Collect(l.Reservations()),
		Released:     slices.Collect(l.Released()),
		Slices:       slices.Collect(l.Slices()),
	}
	if l.journal != nil {
		stored := l.journal.Journal
		stored.Records = slices.Clone(stored.Records)
		snapshot.Journal = &stored
	}
	return snapshot
}

// Restore returns the ledger of a snapshot. It rejects an impossible snapshot: invalid or repeated entries, sequences
// out of range, overflowing sums, and anything beyond the bounds of this package except its budgets of bytes. It
// accepts usage beyond the limits, and skips usage of 0 by 0 claims.
func Restore(s Snapshot) (*Ledger, error) {
	l := New()
	if _, err := l.replaceGrants(s.Grants, math.MaxInt); err != nil {
		return nil, err
	}
	if err := l.restoreObservations(s.Observations); err != nil {
		return nil, err
	}
	if err := l.restoreUsed(s.Used); err != nil {
		return nil, err
	}
	if err := l.restoreReservations(s.Reservations); err != nil {
		return nil, err
	}
	if s.Sequence < l.sequence || s.Sequence > CountMax {
		return nil, fmt.Errorf("sequence %d is not between that of the latest reservation, %d, and %d", s.Sequence, l.sequence, int64(CountMax))
	}
	l.sequence = s.Sequence
	for _, claimUID := range s.Released {
		if claimUID == "" || l.IsReleased(claimUID) {
			return nil, fmt.Errorf("released claim %q is empty or repeated", claimUID)
		}
		l.recordReleased(claimUID)
	}
	if err := l.restoreSlices(s.Slices); err != nil {
		return nil, err
	}
	if s.Journal != nil {
		l.restoreJournal(s.Journal)
	}
	return l, nil
}

func (l *Ledger) restoreObservations(observations []Observation) error {
	for _, o := range observations {
		if err := o.check(); err != nil {
			return fmt.Errorf("observation of %s: %w", o.Kind, err)
		}
		if _, isRepeated := l.observations[o.Kind]; isRepeated {
			return fmt.Errorf("observation of %s is repeated", o.Kind)
		}
		if err := l.setObservation(o, o.Demands, math.MaxInt); err != nil {
			return fmt.Errorf("observation of %s: %w", o.Kind, err)
		}
	}
	return nil
}

func (l *Ledger) restoreUsed(used []Usage) error {
	for _, u := range used {
		if err := u.check(); err != nil {
			return fmt.Errorf("%s: %w", u.describe(), err)
		}
		if u.Amount == 0 && u.Claims == 0 {
			continue
		}
		if a := l.accounts[u.ResourceType]; a != nil && (a.balances[u.Dimensions].used > 0 || a.balances[u.Dimensions].claims > 0) {
			return fmt.Errorf("%s is repeated", u.describe())
		}
		if _, err := l.setUsed(u, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}

// restoreReservations adds the reservations in the order of their sequence.
func (l *Ledger) restoreReservations(reservations []Reservation) error {
	inOrder := slices.SortedFunc(slices.Values(reservations), func(a, b Reservation) int {
		return cmp.Compare(a.Sequence, b.Sequence)
	})
	for _, r := range inOrder {
		if r.Sequence <= l.sequence || r.Sequence > CountMax {
			return fmt.Errorf("reservation %q: sequence %d is repeated or out of range", r.Key, r.Sequence)
		}
		l.sequence = r.Sequence - 1
		switch d := l.reserveOverdraft(r, math.MaxInt); {
		case d.Existing:
			return fmt.Errorf("reservation %q is repeated", r.Key)
		case d.Code != Admitted:
			return fmt.Errorf("reservation %q: %s", r.Key, d.Code)
		}
	}
	return nil
}

// SetUsed replaces the usage of one resource type and dimension set, and the number of claims. Both 0 removes the
// entry. It is for corrections and ignores limits. It reports whether the ledger changed. It fails, and changes
// nothing, if the usage is invalid, the sums of the resource type would not fit, or there is no room for another
// balance.
func (l *Ledger) SetUsed(u Usage) (changed bool, err error) { return l.setUsed(u, BytesMax) }

func (l *Ledger) setUsed(u Usage, bytesMax int) (changed bool, err error) {
	if err := u.check(); err != nil {
		return false, fmt.Errorf("%s: %w", u.describe(), err)
	}
	a := l.accountOf(u.ResourceType)
	defer l.pruneAccount(u.ResourceType)
	before := a.balances[u.Dimensions]
	if before.used == u.Amount && before.claims == u.Claims {
		return false, nil
	}
	if !a.hasBalance(u.Dimensions) && len(a.balances) >= BalancesMax {
		return false, fmt.Errorf("%s: there are %d balances of that resource type already", u.describe(), BalancesMax)
	}
	if !a.hasBalance(u.Dimensions) && l.Bytes()+a.balanceSize(u.Dimensions) > bytesMax {
		return false, fmt.Errorf("%s: the ledger takes %d bytes already, at most %d are allowed", u.describe(), l.Bytes(), bytesMax)
	}
	ok := a.setUsed(u.Dimensions, u.Amount, u.Claims)
	if !ok {
		return false, fmt.Errorf("%s: the sums of %s would not fit", u.describe(), u.ResourceType)
	}
	correction := Charge{ResourceType: u.ResourceType, Dimensions: u.Dimensions, Amount: u.Amount - before.used}
	l.record(Record{Kind: KindCorrected}, slices.Values([]Charge{correction}))
	return true, nil
}

func (u *Usage) check() error {
	switch {
	case !validResourceType(u.ResourceType):
		return fmt.Errorf("the resource type must have 1 to %d bytes", ResourceTypeBytesMax)
	case u.Amount < 0 || u.Claims < 0 || u.Claims > CountMax:
		return fmt.Errorf("%d by %d claims is out of range", u.Amount, u.Claims)
	}
	return nil
}

func (u *Usage) describe() string {
	if u.Dimensions.IsZero() {
		return fmt.Sprintf("usage of %q", u.ResourceType)
	}
	return fmt.Sprintf("usage of %q (%s)", u.ResourceType, u.Dimensions)
}
