package ledgerstore

import (
	"context"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// SetGrants makes the grants in the books of a consumer those that active returns, so that
// its limits are their sums. active gets the grants that the books hold. It reads any others from the API server, not from
// a cache, and is called again when another process wrote the ledger meanwhile: a stale view
// can never raise a limit. Calls for one consumer must not overlap.
//
// If the sums overflow, nothing changes and the error says so.
func (s *Store) SetGrants(ctx context.Context, consumer quotav1alpha1.ConsumerRef, active func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error)) error {
	var failure error
	err := s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		var held []ledger.Grant
		err := s.do(ctx, consumer, &operation{apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			held = slices.Collect(l.Grants())
			return groupcommit.Nothing // whether it is current shows when the grants are set
		}})
		if err != nil {
			return nil, err
		}
		grants, err := active(ctx, held)
		if err != nil {
			return nil, err
		}
		return &operation{
			makesRoom: true, growsCapacity: true,
			apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
				var didChange bool
				if didChange, failure = l.ReplaceGrants(grants); didChange {
					return groupcommit.Changed
				}
				return groupcommit.Unconfirmed
			},
		}, nil
	})
	if err == nil {
		err = failure
	}
	return err
}
