package ledgerstore

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Quiescent tells whether the books hold settled usage alone: no reservation is in flight and no
// released claim is still there. Only then must they equal what the granted claims say.
func Quiescent(l *ledger.Ledger) bool {
	for range l.Released() {
		return false
	}
	return l.ReservationCount() == 0
}

// Correct replaces what the books say is used of a resource type with certain dimensions: the
// amount and the number of claims of observed become those of corrected. It does so only while
// the books are quiet and still say observed, and reports whether it did. It is for repairing
// drift and pays no heed to limits. If the sums would not fit, nothing changes and the error
// hasUsage so.
func (s *Store) Correct(ctx context.Context, consumer quotav1alpha1.ConsumerRef, observed, corrected ledger.Usage) (bool, error) {
	return s.correct(ctx, consumer, observed, corrected, Quiescent)
}

// CorrectBusy is Correct for books that may not be quiet. Whoever calls it has left out of corrected what is in flight,
// when the books said observed. It does not matter what happened since: reservations that are settled and claims that
// are released change books and claims alike.
func (s *Store) CorrectBusy(ctx context.Context, consumer quotav1alpha1.ConsumerRef, observed, corrected ledger.Usage) (bool, error) {
	return s.correct(ctx, consumer, observed, corrected, func(*ledger.Ledger) bool { return true })
}

func (s *Store) correct(ctx context.Context, consumer quotav1alpha1.ConsumerRef, observed, corrected ledger.Usage, isFit func(*ledger.Ledger) bool) (bool, error) {
	if observed.ResourceType != corrected.ResourceType || observed.Dimensions != corrected.Dimensions {
		return false, fmt.Errorf("correct the ledger of %s: usage of %s cannot stand for usage of %s",
			describe(consumer), corrected.ResourceType, observed.ResourceType)
	}
	var applies bool
	var failure error
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: corrected.Amount < observed.Amount,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			failure = nil
			if applies = isFit(l) && hasUsage(l, observed); !applies {
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

// hasUsage tells whether the books agree with a usage, which is zero where they have none.
func hasUsage(l *ledger.Ledger, u ledger.Usage) bool {
	for have := range l.Used() {
		if have.ResourceType == u.ResourceType && have.Dimensions == u.Dimensions {
			return have == u
		}
	}
	return u.Amount == 0 && u.Claims == 0
}
