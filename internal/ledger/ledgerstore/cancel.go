package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Cancel drops a reservation, if it still exists, and gives its charges back at once. Sequence 0 stands for any.
func (s *Store) Cancel(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) error {
	return s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			if l.Cancel(key, sequence) {
				return groupcommit.Changed
			}
			return groupcommit.Unconfirmed
		},
		committed: func() { s.inflight.remove(consumer, key, sequence) },
	})
}

// Tombstone is [Store.Cancel] for a reservation from which another process may be making a claim at this moment. The
// same write records that this claim gives nothing back. The record, [TombstoneID], stays until [Store.Forget]. Call
// Forget once no claim of the reservation exists: after it made a claim, a process looks for the reservation again
// before it grants the claim.
//
// Tombstone reports whether the record exists. If not, the reservation had already ended, and its claim may be charged.
func (s *Store) Tombstone(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) (bool, error) {
	id := TombstoneID(ObjectUID(key), sequence)
	var recorded bool
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			recorded = l.IsReleased(id)
			if recorded || !l.ReleaseReserved(id, key, sequence) {
				return groupcommit.Unconfirmed
			}
			recorded = true
			return groupcommit.Changed
		},
		committed: func() {
			s.inflight.remove(consumer, key, sequence)
			if recorded {
				s.released.add(consumer, id)
			}
		},
	})
	return err == nil && recorded, err
}

// Settle turns a reservation into usage. Call it once the stored claim is Granted. Settle returns at once and takes
// effect with the next commit of the consumer, or by itself after a few seconds, or earlier if there are many. From now
// on the store no longer lists the reservation, because every later change of the ledger is decided after it.
func (s *Store) Settle(consumer quotav1alpha1.ConsumerRef, key string, sequence int64) {
	s.inflight.settle(consumer, key, sequence)
	op := &operation{
		makesRoom: true, patience: settleDelay,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			if l.Settle(key, sequence) {
				return groupcommit.Changed
			}
			return groupcommit.Nothing
		},
		committed: func() { s.inflight.remove(consumer, key, sequence) },
	}
	s.with(consumer, func(c *committer) bool { return c.commitLater(op) })
}
