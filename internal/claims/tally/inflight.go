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
	// amended are the charges in the usage of claims with a pending amendment, by the key of the amendment.
	amended map[string][]ledger.Charge
	// released are claims no longer in the usage. It includes no claims with withdrawn sequences.
	released  map[string]struct{}
	withdrawn ledger.SequenceSet
}

// InFlightOf returns what is in flight in a ledger.
func InFlightOf(snapshot *ledger.Ledger) InFlight {
	return inFlightIn(snapshot.Reservations(), snapshot.Released(), snapshot.Withdrawn())
}

func inFlightIn(reservations iter.Seq[ledger.Reservation], released iter.Seq[string], withdrawn ledger.SequenceSet) InFlight {
	f := InFlight{reserved: map[string]int64{}, amended: map[string][]ledger.Charge{}, released: map[string]struct{}{}, withdrawn: withdrawn}
	for r := range reservations {
		if len(r.Replaces) > 0 {
			f.amended[r.Key] = r.Replaces
		} else {
			f.reserved[r.Key] = r.Sequence
		}
	}
	for id := range released {
		f.released[id] = struct{}{}
	}
	return f
}

// Same reports whether there was no reservation, settlement or release between two reads. Ledgers never reuse
// sequences.
func (f InFlight) Same(other InFlight) bool {
	return maps.Equal(f.reserved, other.reserved) && maps.Equal(f.released, other.released) && slices.Equal(f.withdrawn, other.withdrawn) &&
		maps.EqualFunc(f.amended, other.amended, slices.Equal[[]ledger.Charge])
}

// Usage returns the right usage of a ledger with these claims and this in flight. It fails if the two do not match.
func (f InFlight) Usage(claims []*claimcache.Claim) ([]ledger.Usage, error) {
	t := Tally{inFlight: f}
	for _, claim := range claims {
		if err := t.Add(claim); err != nil {
			return nil, err
		}
	}
	return t.held()
}

// isReserved reports whether a claim's reservation still waits for its settlement.
func (f InFlight) isReserved(claim *claimcache.Claim) bool {
	if claim.Sequence == 0 {
		_, is := f.reserved[ledgerstore.ClaimKey(string(claim.UID))]
		return is
	}
	sequence, is := f.reserved[ledgerstore.ObjectKey(claim.Policy(), string(claim.ObjectUID))]
	return is && sequence == claim.Sequence
}

// isReleased reports whether the ledger released the charge of a claim, or withdrew its reservation.
func (f InFlight) isReleased(claim *claimcache.Claim) bool {
	_, is := f.released[string(claim.UID)]
	return is || f.withdrawn.Has(claim.Sequence)
}

// amendmentOf returns the key of the pending amendment of a claim, or "".
func (f InFlight) amendmentOf(claim *claimcache.Claim) string {
	key := ledgerstore.ResizeKey(string(claim.UID))
	if f.amended[key] == nil {
		return ""
	}
	return key
}
