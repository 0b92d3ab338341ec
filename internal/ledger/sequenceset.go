package ledger

import (
	"slices"
	"sort"
)

// SequenceRange is all sequences from First to Last.
type SequenceRange struct{ First, Last int64 }

// SequenceSet is a set of sequences, as ascending ranges with gaps in between. It is immutable.
type SequenceSet []SequenceRange

// Has reports whether the set has a sequence.
func (s SequenceSet) Has(sequence int64) bool {
	i := s.endingAt(sequence)
	return i < len(s) && s[i].First <= sequence
}

// endingAt returns the index of the first range that ends at a sequence or later.
func (s SequenceSet) endingAt(sequence int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].Last >= sequence })
}

// With returns the set with one more sequence.
func (s SequenceSet) With(sequence int64) SequenceSet {
	i := s.endingAt(sequence)
	if i < len(s) && s[i].First <= sequence {
		return s
	}
	s = slices.Insert(slices.Clone(s), i, SequenceRange{sequence, sequence})
	if i+1 < len(s) && s[i+1].First == sequence+1 {
		s[i].Last = s[i+1].Last
		s = slices.Delete(s, i+1, i+2)
	}
	if i > 0 && s[i-1].Last == sequence-1 {
		s[i-1].Last = s[i].Last
		s = slices.Delete(s, i, i+1)
	}
	return s
}
