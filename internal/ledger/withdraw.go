package ledger

import (
	"fmt"
	"slices"
	"sort"
)

// WithdrawnMax bounds the ranges of withdrawn sequences. Beyond it the ledger drops the oldest.
const WithdrawnMax = 512

// Sequences are all sequences from First to Last.
type Sequences struct{ First, Last int64 }

// Withdraw drops a reservation like [Ledger.Cancel], and withdraws its sequence: a claim that somebody makes from it all
// the same is charged nowhere, and gives nothing back. Sequence 0 stands for any. It reports whether there was such a
// reservation. It is not for amendments.
func (l *Ledger) Withdraw(key string, sequence int64) bool {
	r, ok := l.find(key, sequence)
	if !ok || r.amends() {
		return false
	}
	l.Cancel(key, sequence)
	l.withdraw(r.Sequence)
	return true
}

// Renew gives a reservation a new sequence and withdraws the former one: whoever knows only that can no longer end the
// reservation, nor make its claim. Sequence 0 stands for any. It reports whether there is such a reservation. It is not
// for amendments.
func (l *Ledger) Renew(key string, sequence int64) (renewed int64, ok bool) {
	r, ok := l.find(key, sequence)
	if !ok || r.amends() {
		return 0, false
	}
	l.withdraw(r.Sequence)
	l.sequence++
	r.Sequence = l.sequence
	l.reservations[key] = r
	return r.Sequence, true
}

// IsWithdrawn reports whether a sequence was withdrawn.
func (l *Ledger) IsWithdrawn(sequence int64) bool { return Contains(l.withdrawn, sequence) }

// Withdrawn returns the withdrawn sequences in ascending order. Later changes of the ledger do not affect it. Do not
// modify it.
func (l *Ledger) Withdrawn() []Sequences { return l.withdrawn }

// Contains reports whether ascending ranges contain a sequence.
func Contains(ranges []Sequences, sequence int64) bool {
	i := endingAt(ranges, sequence)
	return i < len(ranges) && ranges[i].First <= sequence
}

// endingAt returns the index of the first range that ends at a sequence or later.
func endingAt(ranges []Sequences, sequence int64) int {
	return sort.Search(len(ranges), func(i int) bool { return ranges[i].Last >= sequence })
}

// withdraw adds a sequence to the withdrawn ones.
func (l *Ledger) withdraw(sequence int64) {
	ranges := Insert(l.withdrawn, sequence)
	l.withdrawn = ranges[max(0, len(ranges)-WithdrawnMax):]
}

// Insert returns ascending ranges with one more sequence. It leaves the given ranges as they are.
func Insert(ranges []Sequences, sequence int64) []Sequences {
	i := endingAt(ranges, sequence)
	if i < len(ranges) && ranges[i].First <= sequence {
		return ranges
	}
	ranges = slices.Insert(slices.Clone(ranges), i, Sequences{sequence, sequence})
	if i+1 < len(ranges) && ranges[i+1].First == sequence+1 {
		ranges[i].Last = ranges[i+1].Last
		ranges = slices.Delete(ranges, i+1, i+2)
	}
	if i > 0 && ranges[i-1].Last == sequence-1 {
		ranges[i-1].Last = ranges[i].Last
		ranges = slices.Delete(ranges, i, i+1)
	}
	return ranges
}

// unwithdraw undoes withdraw.
func (l *Ledger) unwithdraw(sequence int64) {
	var ranges []Sequences
	for _, r := range l.withdrawn {
		if sequence < r.First || sequence > r.Last {
			ranges = append(ranges, r)
			continue
		}
		if r.First < sequence {
			ranges = append(ranges, Sequences{r.First, sequence - 1})
		}
		if sequence < r.Last {
			ranges = append(ranges, Sequences{sequence + 1, r.Last})
		}
	}
	l.withdrawn = ranges
}

func (l *Ledger) restoreWithdrawn(withdrawn []Sequences) error {
	last := int64(-1)
	for _, r := range withdrawn {
		if r.First <= last+1 || r.Last < r.First || r.Last > l.sequence {
			return fmt.Errorf("withdrawn sequences %d to %d are out of order or of the future", r.First, r.Last)
		}
		last = r.Last
	}
	if len(withdrawn) > WithdrawnMax {
		return fmt.Errorf("%d ranges of withdrawn sequences are more than %d", len(withdrawn), WithdrawnMax)
	}
	l.withdrawn = slices.Clone(withdrawn)
	return nil
}
