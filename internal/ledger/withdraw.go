package ledger

import (
	"fmt"
	"slices"
)

// WithdrawnMax bounds the ranges of withdrawn sequences. Beyond it the ledger drops the oldest.
const WithdrawnMax = 512

// Withdraw drops a reservation like [Ledger.Cancel], and withdraws its sequence. A claim made from it all the same has
// no charge, and gives nothing back. Sequence 0 stands for any. It reports whether there was such a reservation.
func (l *Ledger) Withdraw(key string, sequence int64) bool {
	r, ok := l.find(key, sequence)
	if !ok {
		return false
	}
	l.Cancel(key, sequence)
	l.withdraw(r.Sequence)
	return true
}

// Renew gives a reservation a new sequence and withdraws the former one: a process with only the former sequence can no
// longer end the reservation, nor make its claim. Sequence 0 stands for any. It reports whether there is such a
// reservation.
func (l *Ledger) Renew(key string, sequence int64) (renewed int64, ok bool) {
	r, ok := l.find(key, sequence)
	if !ok {
		return 0, false
	}
	l.withdraw(r.Sequence)
	l.sequence++
	r.Sequence = l.sequence
	put(&l.log, l.reservations, key, r)
	return r.Sequence, true
}

// IsWithdrawn reports whether a sequence was withdrawn.
func (l *Ledger) IsWithdrawn(sequence int64) bool { return l.withdrawn.Has(sequence) }

// Withdrawn returns the withdrawn sequences.
func (l *Ledger) Withdrawn() SequenceSet { return l.withdrawn }

func (l *Ledger) withdraw(sequence int64) {
	withdrawn := l.withdrawn.With(sequence)
	l.withdrawn = withdrawn[max(0, len(withdrawn)-WithdrawnMax):]
}

func (l *Ledger) restoreWithdrawn(withdrawn SequenceSet) error {
	last := int64(-1)
	for _, r := range withdrawn {
		if r.First <= last+1 || r.Last < r.First || r.Last > l.sequence {
			return fmt.Errorf("withdrawn sequences %d to %d are out of order or in the future", r.First, r.Last)
		}
		last = r.Last
	}
	if len(withdrawn) > WithdrawnMax {
		return fmt.Errorf("%d ranges of withdrawn sequences are more than %d", len(withdrawn), WithdrawnMax)
	}
	l.withdrawn = slices.Clone(withdrawn)
	return nil
}
