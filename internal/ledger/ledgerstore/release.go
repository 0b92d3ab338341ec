package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// ClaimCharges is what a claim that is being deleted may hold in the books.
type ClaimCharges struct {
	// ClaimUID is the UID of the claim.
	ClaimUID string
	// Key and Sequence name the reservation that the claim was made from.
	Key      string
	Sequence int64
	// Amendment is the key of an amendment that may be under way: then the books have what it
	// replaces, whatever Charges says.
	Amendment string
	// Granted tells whether the claim's stored status says Granted. Only then can its charges
	// have been settled.
	Granted bool
	// Charges are the amounts of the claim.
	Charges []ledger.Charge
}

// Release gives back what a claim holds and records in the same write that it did, so that
// repeating it changes nothing. The record stays until [Store.Forget].
//
// holding reads the claim from the API server, not from a cache, and returns nil when the claim
// no longer exists or no longer carries Bursar's finalizer; then nothing is released. It is
// called again when another process may have released the same claim meanwhile. Once the claim is
// forgotten nothing is released any more, also if it was read before. Calls for one claim must not
// overlap.
//
// A claim whose charges are not in the books is drift: Release reports it as drifted, leaves
// the books to the auditor and lets the claim go.
func (s *Store) Release(ctx context.Context, consumer quotav1alpha1.ConsumerRef, claimUID string, charges func(context.Context) (*ClaimCharges, error)) (drifted bool, err error) {
	var adrift bool
	isForgotten, end := s.released.begin(claimUID)
	defer end()
	err = s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		adrift = false
		c, err := charges(ctx)
		if c == nil || err != nil {
			return nil, err
		}
		var recorded bool
		return &operation{
			makesRoom: true, growsCapacity: true,
			apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
				if adrift = false; isForgotten.Load() {
					return groupcommit.Nothing
				}
				var e groupcommit.Effect
				e, adrift = c.release(l)
				recorded = l.IsReleased(c.ClaimUID)
				return e
			},
			committed: func() {
				s.inflight.remove(consumer, c.Key, c.Sequence)
				s.inflight.remove(consumer, c.Amendment, 0)
				if recorded {
					s.released.add(consumer, c.ClaimUID)
				}
			},
		}, nil
	})
	if err != nil {
		return false, err
	}
	return adrift, nil
}

// release applies the holding to the books.
func (c *ClaimCharges) release(l *ledger.Ledger) (e groupcommit.Effect, drifted bool) {
	if l.IsReleased(c.ClaimUID) || l.IsReleased(TombstoneID(ObjectUID(c.Key), c.Sequence)) {
		return groupcommit.Unconfirmed, false
	}
	if l.ReleaseReserved(c.ClaimUID, c.Key, c.Sequence) || l.ReleaseReserved(c.ClaimUID, c.Amendment, 0) {
		return groupcommit.Changed, false
	}
	if !c.Granted {
		return groupcommit.Unconfirmed, false
	}
	if !l.Release(c.ClaimUID, c.Charges) {
		return groupcommit.Unconfirmed, true
	}
	return groupcommit.Changed, false
}

// Forget drops the record of a released claim, or of a withdrawn reservation. Call it once the claim is
// gone from the API server. It returns at once and takes effect with the next commit.
func (s *Store) Forget(consumer quotav1alpha1.ConsumerRef, claimUID string) {
	s.released.forget(claimUID)
	op := &operation{makesRoom: true, committed: func() { s.released.remove(consumer, claimUID) }}
	op.apply = func(l *ledger.Ledger, _ bool) groupcommit.Effect {
		op.growsCapacity = l.Bytes() > ledger.BytesMax/2 // a claim may wait for room in the ledger
		if l.Forget(claimUID) {
			return groupcommit.Changed
		}
		return groupcommit.Nothing
	}
	s.with(consumer, func(c *committer) bool { return c.commitLater(op) })
}

// ExpectRelease announces that a charge, identified by any id, is about to be given back
// because the deletion of what it pays for was seen. Until [Store.ReleaseDone] is called with
// the same id, refusals for this consumer wait a little for it.
func (s *Store) ExpectRelease(consumer quotav1alpha1.ConsumerRef, id string) {
	s.with(consumer, func(c *committer) bool { return c.expectRelease(id) })
}

// ReleaseDone withdraws an announcement of [Store.ExpectRelease], whether or not anything was
// released.
func (s *Store) ReleaseDone(consumer quotav1alpha1.ConsumerRef, id string) {
	s.mu.RLock()
	c := s.byRef[consumer]
	s.mu.RUnlock()
	if c != nil {
		c.releaseDone(id)
	}
}
