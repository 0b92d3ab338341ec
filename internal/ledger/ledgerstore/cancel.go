package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Cancel drops a reservation, if it still exists, and gives its charges back at once. Sequence 0 stands for any. It is
// only for reservations of requests that have certainly ended without an effect.
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

// Lower takes back what a request has raised, see [Outcome.Raised]: the reservation is as before, or is gone. It does
// nothing if another request relies on the reservation by now, because it then has another sequence.
func (s *Store) Lower(ctx context.Context, consumer quotav1alpha1.ConsumerRef, sequence int64, before ledger.Reservation) error {
	var lowered ledger.Reservation
	return s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			lowered = ledger.Reservation{}
			trial := l.Begin()
			if !l.Cancel(before.Key, sequence) || l.ReserveOverdraft(before).Code != ledger.Admitted {
				trial.Discard() // it has ended, or stays raised
				return groupcommit.Unconfirmed
			}
			trial.Keep()
			lowered, _ = l.Reservation(before.Key)
			return groupcommit.Changed
		},
		committed: func() {
			if lowered.Key != "" {
				s.inflight.add(consumer, lowered, true)
			}
		},
	})
}
