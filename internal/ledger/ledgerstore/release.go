package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// ClaimCharges are the possible charges of a claim under deletion.
type ClaimCharges struct {
	// ClaimUID is the UID of the claim.
	ClaimUID string
	// Key and Sequence name the original reservation of the claim.
	Key      string
	Sequence int64
	// Granted is true if the stored status of the claim is Granted. Only such charges may have become usage.
	Granted bool
	// Charges are the amounts of the claim.
	Charges []ledger.Charge
	// Subject is the subject of the record of the release: a claim payload as in a reservation.
	Subject string
}

// Release gives back the charges of a claim and records the UID in the same write: a repetition changes nothing. The
// record stays until [Store.Forget].
//
// charges must read the claim from the API server, not from a cache. It returns nil if the claim no longer exists or no
// longer has Bursar's finalizer; then Release does nothing. Release calls it again if another process may have released
// the same claim in between. After Forget it releases nothing, even for a claim read before. Calls for one claim must
// not overlap.
//
// If the ledger does not have the charges, it has drifted from the claims. Release then reports drifted, leaves the
// ledger to the auditor, and does not hold back the claim.
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

// release releases the charges in the ledger.
func (c *ClaimCharges) release(l *ledger.Ledger) (e groupcommit.Effect, drifted bool) {
	if l.IsReleased(c.ClaimUID) {
		return groupcommit.Unconfirmed, false
	}
	if l.ReleaseReserved(c.ClaimUID, c.Key, c.Sequence) {
		return groupcommit.Changed, false
	}
	if !c.Granted {
		return groupcommit.Unconfirmed, false
	}
	if !l.Release(ledger.SettledClaim{UID: c.ClaimUID, Charges: c.Charges, Key: c.Key, Subject: c.Subject}) {
		return groupcommit.Unconfirmed, true
	}
	return groupcommit.Changed, false
}

// Forget drops the record of a released claim. Call it once the claim no longer exists on the API
// server. It returns at once and takes effect with the next commit.
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

// ExpectRelease announces the release of a charge with some id: its object is gone. Until [Store.ReleaseDone] with the
// same id, or for 30 s, denials for this consumer wait a little for the release.
func (s *Store) ExpectRelease(consumer quotav1alpha1.ConsumerRef, id string) {
	s.with(consumer, func(c *committer) bool { return c.expectRelease(id, expectedReleaseMax) })
}

// ExpectDeletion announces the deletion of the object with a charge, under the id of its release. The object still
// exists, and may do so for long, so denials wait only in the next 3 s. Call [Store.ExpectRelease] when it is gone.
func (s *Store) ExpectDeletion(consumer quotav1alpha1.ConsumerRef, id string) {
	s.with(consumer, func(c *committer) bool { return c.expectRelease(id, deletionMax) })
}

// ReleaseDone ends an announcement of [Store.ExpectRelease], with or without a release.
func (s *Store) ReleaseDone(consumer quotav1alpha1.ConsumerRef, id string) {
	s.mu.RLock()
	c := s.byRef[consumer]
	s.mu.RUnlock()
	if c != nil {
		c.releaseDone(id)
	}
}
