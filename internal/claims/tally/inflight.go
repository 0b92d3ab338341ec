package tally

import (
	"iter"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// InFlight is the difference between a ledger's usage and its granted claims.
type InFlight struct {
	// reserved are the sequences of reservations by key. The usage does not include their claims yet.
	reserved map[string]int64
	// released are claims no longer in the usage. It includes no claims with withdrawn sequences.
	released  map[string]struct{}
	withdrawn ledger.SequenceSet
}

// InFlightOf returns what is in flight in a ledger.
func InFlightOf(snapshot *ledger.Ledger) InFlight {
	return inFlightIn(snapshot.Reservations(), snapshot.Released(), snapshot.Withdrawn())
}

func inFlightIn(reservations iter.Seq[ledger.Reservation], released iter.Seq[string], withdrawn ledger.SequenceSet) InFlight {
	f := InFlight{reserved: map[string]int64{}, released: map[string]struct{}{}, withdrawn: withdrawn}
	for r := range reservations {
		f.reserved[r.Key] = r.Sequence
	}
	for id := range released {
		f.released[id] = struct{}{}
	}
	return f
}

// Same reports whether there was no reservation, settlement or release between two reads. Ledgers never reuse
// sequences.
func (f InFlight) Same(other InFlight) bool {
	return maps.Equal(f.reserved, other.reserved) && maps.Equal(f.released, other.released) && slices.Equal(f.withdrawn, other.withdrawn)
}

// Usage returns the right usage of a ledger with these claims and this in flight, see [Holds]. It fails if the sums
// overflow.
func (f InFlight) Usage(claims []*claimcache.Claim) ([]ledger.Usage, error) {
	t := Tally{inFlight: f}
	for _, claim := range claims {
		if !Holds(claim) {
			continue
		}
		if err := t.Add(claim); err != nil {
			return nil, err
		}
	}
	return t.sums.usage(), nil
}

// isReserved reports whether a claim's reservation still waits for its settlement.
func (f InFlight) isReserved(claim *claimcache.Claim) bool {
	sequence, is := f.reserved[ledgerstore.ObjectKey(claim.Policy(), string(claim.ObjectUID))]
	return is && sequence == claim.Sequence
}

// isReleased reports whether the ledger released the charge of a claim, or withdrew its reservation.
func (f InFlight) isReleased(claim *claimcache.Claim) bool {
	_, is := f.released[string(claim.UID)]
	return is || f.withdrawn.Has(claim.Sequence)
}
