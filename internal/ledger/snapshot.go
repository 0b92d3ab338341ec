package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Snapshot is a ledger in plain form, for storing. [Ledger.Snapshot] gives every list in a fixed order: equal ledgers
// have equal snapshots. [Restore] accepts any order.
type Snapshot struct {
	// Sequence is the sequence of the latest reservation, even if it has ended.
	Sequence int64
	// Grants are sorted by UID.
	Grants []Grant
	// Observations are sorted by kind.
	Observations []Observation
	// Reservations are sorted by sequence.
	Reservations []Reservation
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
		Reservations: slices.Collect(l.Reservations()),
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
// accepts demand beyond the limits.
func Restore(s Snapshot) (*Ledger, error) {
	l := New()
	if _, err := l.replaceGrants(s.Grants, math.MaxInt); err != nil {
		return nil, err
	}
	if err := l.restoreObservations(s.Observations); err != nil {
		return nil, err
	}
	if err := l.restoreReservations(s.Reservations); err != nil {
		return nil, err
	}
	if s.Sequence < l.sequence || s.Sequence > CountMax {
		return nil, fmt.Errorf("sequence %d is not between that of the latest reservation, %d, and %d", s.Sequence, l.sequence, int64(CountMax))
	}
	l.sequence = s.Sequence
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
