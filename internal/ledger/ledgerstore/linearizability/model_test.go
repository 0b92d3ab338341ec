package linearizability

import "maps"

// input is the request of a caller.
type input struct {
	kind     kind
	key      string // of the reservation, and UID of its claim
	sequence int64
	amount   int64 // of the reservation, or the limit
}

type kind string

const (
	reserve  kind = "reserve"
	cancel   kind = "cancel"
	settle   kind = "settle"
	release  kind = "release"
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
type totals struct{ limit, used, claims, reserved, sequence int64 }

// state is a consumer's ledger in its simplest form. Replace it, never modify it.
type state struct {
	limit, used, claims, sequence int64
	reservations                  map[string]held
	// released are all claims with their charges ever given back: none does so twice.
	released map[string]bool
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
	return s.limit == other.limit && s.used == other.used && s.claims == other.claims && s.sequence == other.sequence &&
		maps.Equal(s.reservations, other.reservations) && maps.Equal(s.released, other.released)
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
		return out.unknown || out.seen == totals{s.limit, s.used, s.claims, s.reserved(), s.sequence}, s
	}
	h, known := s.reservations[in.key]
	known = known && h.sequence == in.sequence
	switch {
	case in.kind == release && s.released[in.key]:
		return true, s
	case in.kind == release && !known: // a settled one
		s.used, s.claims = s.used-in.amount, s.claims-1
		s = s.markReleased(in.key)
		return s.used >= 0 && s.claims >= 0, s
	case in.kind == release:
		return true, s.without(in.key).markReleased(in.key)
	case in.kind == settle && known:
		s.used, s.claims = s.used+h.amount, s.claims+1
		return true, s.without(in.key)
	case in.kind == cancel && known:
		return true, s.without(in.key)
	default:
		return true, s
	}
}

func (s state) reserve(in input, out output) (bool, state) {
	if h, known := s.reservations[in.key]; known {
		return out.unknown || out.admitted && out.sequence == h.sequence, s
	}
	if s.used+s.reserved()+in.amount > s.limit {
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

func (s state) markReleased(claim string) state {
	s.released = maps.Clone(s.released)
	s.released[claim] = true
	return s
}
