package ledgerstore

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Quiescent reports whether the ledger has only settled usage: no reservations and no records of released claims. Only
// then must its usage equal the sum of the granted claims.
func Quiescent(l *ledger.Ledger) bool {
	for range l.Released() {
		return false
	}
	return l.ReservationCount() == 0
}

// Correct replaces the usage of one resource type and dimension set: amount and number of claims change from observed
// to corrected. It does so only while the ledger still has observed, and reports whether it did. It is for repairing
// drift and ignores limits. If the sums would not fit, it fails and changes nothing.
//
// The caller must have left out of corrected everything in flight at the time of observed. Later changes do not matter:
// settling a reservation and releasing a claim change the ledger and the claims alike.
func (s *Store) Correct(ctx context.Context, consumer quotav1alpha1.ConsumerRef, observed, corrected ledger.Usage) (bool, error) {
	if observed.ResourceType != corrected.ResourceType || observed.Dimensions != corrected.Dimensions {
		return false, fmt.Errorf("correct the ledger of %s: usage of %s cannot replace usage of %s",
			describe(consumer), corrected.ResourceType, observed.ResourceType)
	}
	var applies bool
	var failure error
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: corrected.Amount < observed.Amount,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			failure = nil
			if applies = hasUsage(l, observed); !applies {
				return groupcommit.Unconfirmed
			}
			var didChange bool
			if didChange, failure = l.SetUsed(corrected); didChange {
				return groupcommit.Changed
			}
			return groupcommit.Unconfirmed
		},
	})
	switch {
	case err != nil:
		return false, err
	case failure != nil:
		return false, fmt.Errorf("correct the ledger of %s: %w", describe(consumer), failure)
	default:
		return applies, nil
	}
}

// hasUsage reports whether the ledger has exactly this usage. Zero usage means no entry.
func hasUsage(l *ledger.Ledger, u ledger.Usage) bool {
	for have := range l.Used() {
		if have.ResourceType == u.ResourceType && have.Dimensions == u.Dimensions {
			return have == u
		}
	}
	return u.Amount == 0 && u.Claims == 0
}
