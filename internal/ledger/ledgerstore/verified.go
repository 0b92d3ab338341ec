package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// ReserveVerified is [Store.Reserve] for a reservation whose reason may have been met by another
// process, after which its key is not in the books any more: deciding it anew would charge
// twice.
//
// wanted reads from the API server, not from a cache, whether the reservation is still wanted,
// and returns nil if it is not; then nothing happens and the decision has no code. It is called
// again whenever another process may have acted in between. Calls for one key must not overlap.
func (s *Store) ReserveVerified(ctx context.Context, consumer quotav1alpha1.ConsumerRef, wanted func(context.Context) (*ledger.Reservation, error)) (ledger.Decision, error) {
	var outcome Outcome
	var full bool
	err := s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		outcome, full = Outcome{}, false
		r, err := wanted(ctx)
		if r == nil || err != nil {
			return nil, err
		}
		op := &operation{}
		s.reserving(op, consumer, []ledger.Reservation{*r}, &outcome, &full)
		return op, nil
	})
	switch {
	case err != nil:
		return ledger.Decision{}, err
	case full:
		return ledger.Decision{}, ErrBusy
	case outcome.Code == 0:
		return ledger.Decision{}, nil
	default:
		return outcome.single(), nil
	}
}
