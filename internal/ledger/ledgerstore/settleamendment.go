package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// SettleAmendment ends an amendment once the stored claim has its new charges, see [ledger.Ledger.SettleAmendment].
// Sequence 0 stands for any. It reports whether it did. If not, there no longer is such an amendment, or the ledger
// does not have the charges it replaces; then the auditor repairs the ledger.
func (s *Store) SettleAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) (bool, error) {
	var done bool
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			if done = l.SettleAmendment(key, sequence, after); done {
				return groupcommit.Changed
			}
			return groupcommit.Unconfirmed
		},
		committed: func() {
			if done {
				s.inflight.remove(consumer, key, sequence)
			}
		},
	})
	return err == nil && done, err
}
