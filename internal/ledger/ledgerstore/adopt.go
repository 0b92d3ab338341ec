package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// adoptionsMax is how many reservations may be in flight for more to be adopted: the rest is kept
// free for objects that are being created.
const adoptionsMax = ReservationsMax / 2

// Adopt enters a reservation for an object that exists, regardless of the limits. It returns after
// it was stored, and is otherwise like [Store.ReserveVerified]. If half of what may be in flight is, it
// waits for some of it to be settled, and then fails with [ErrBusy].
func (s *Store) Adopt(ctx context.Context, consumer quotav1alpha1.ConsumerRef, wanted func(context.Context) (*ledger.Reservation, error)) (ledger.Decision, error) {
	var decision ledger.Decision
	var full bool
	err := s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		decision, full = ledger.Decision{}, false
		r, err := wanted(ctx)
		if r == nil || err != nil {
			return nil, err
		}
		reservations := []ledger.Reservation{*r}
		return &operation{
			apply: func(books *ledger.Ledger, _ bool) effect {
				decision = ledger.Decision{}
				fresh := unknownTo(books, reservations)
				if full = len(fresh) > 0 && books.ReservationCount() >= adoptionsMax || isFull(books, fresh); full {
					return postponed
				}
				if decision = books.ReserveOverdraft(*r); decision.Code == ledger.Admitted && !decision.Existing {
					return changed
				}
				return unconfirmed
			},
			committed: func() { s.addInflight(consumer, reservations, []ledger.Decision{decision}) },
		}, nil
	})
	switch {
	case err != nil:
		return ledger.Decision{}, err
	case full:
		return ledger.Decision{}, ErrBusy
	default:
		return decision, nil
	}
}
