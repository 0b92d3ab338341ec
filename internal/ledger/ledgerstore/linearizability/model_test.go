package linearizability

import "maps"

// input is the request of a caller.
type input struct {
	kind     kind
	key      string // of the reservation
	sequence int64
	amount   int64 // of the reservation, or the limit
}

type kind string

const (
	reserve  kind = "reserve"
	cancel   kind = "cancel"
	setLimit kind = "set limit"
	view     kind = "view"
)

// output is the answer to the caller.
type output struct {
	// unknown is true if the caller got an error: the operation may take effect at any time, or never.
	unknown  bool
	admitted bool
	sequence int64
	seen     totals
}

// totals are the sums in a view.
type totals struct{ limit, reserved, sequence int64 }

// state is a consumer's ledger in its simplest form. Replace it, never modify it.
type state struct {
	limit, sequence int64
	reservations    map[string]held
}

type held struct{ sequence, amount int64 }

func (s state) reserved() int64 {
	var sum int64
	for _, h := range s.reservations {
		sum += h.amount
	}
	return sum
}

func (s state) equal(other state) bool {
	return s.limit == other.limit && s.sequence == other.sequence && maps.Equal(s.reservations, other.reservations)
}

// step carries out an operation and reports whether its output is right. An operation with an unknown outcome may have
// had any output.
func (s state) step(in input, out output) (bool, state) {
	switch in.kind {
	case reserve:
		return s.reserve(in, out)
	case setLimit:
		s.limit = in.amount
		return true, s
	case view:
		return out.unknown || out.seen == totals{s.limit, s.reserved(), s.sequence}, s
	}
	if h, known := s.reservations[in.key]; known && h.sequence == in.sequence { // a cancel
		return true, s.without(in.key)
	}
	return true, s
}

func (s state) reserve(in input, out output) (bool, state) {
	if h, known := s.reservations[in.key]; known {
		return out.unknown || out.admitted && out.sequence == h.sequence, s
	}
	if s.reserved()+in.amount > s.limit {
		return out.unknown || !out.admitted, s
	}
	s.sequence++
	s.reservations = maps.Clone(s.reservations)
	s.reservations[in.key] = held{s.sequence, in.amount}
	return out.unknown || out.admitted && out.sequence == s.sequence, s
}

func (s state) without(key string) state {
	s.reservations = maps.Clone(s.reservations)
	delete(s.reservations, key)
	return s
}
