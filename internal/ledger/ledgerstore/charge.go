package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Charge enters reservations of one consumer in one commit, one after the other, whether they fit or
// not: of one that does not, the decision is Admitted and has the shortages. As nothing is refused,
// releases that are expected are not waited for. With dry nothing is entered, and the decisions are
// those that would be taken.
//
// It is otherwise like [Store.Reserve].
func (s *Store) Charge(ctx context.Context, consumer quotav1alpha1.ConsumerRef, dry bool, reservations []ledger.Reservation) ([]ledger.Decision, error) {
	var decisions []ledger.Decision
	var full bool
	err := s.do(ctx, consumer, &operation{
		apply: func(books *ledger.Ledger, _ bool) effect {
			decisions = nil
			fresh := unknownTo(books, reservations)
			if full = isFull(books, fresh); full {
				return postponed
			}
			result := unconfirmed
			for _, r := range reservations {
				decision := regardless(r, books.Reserve, books.ReserveOverdraft)
				if decision.Code == ledger.Admitted && !decision.Existing {
					result = changed
				}
				decisions = append(decisions, decision)
			}
			if dry {
				undo(books, fresh)
				return unconfirmed
			}
			return result
		},
		committed: func() {
			if !dry && !full {
				s.addInflight(consumer, reservations, decisions)
			}
		},
	})
	switch {
	case err != nil:
		return nil, err
	case full:
		return nil, ErrBusy
	default:
		return decisions, nil
	}
}

// regardless decides within the limits, and beyond them what does not fit. Then the decision has the
// shortages as well.
func regardless(r ledger.Reservation, within, beyond func(ledger.Reservation) ledger.Decision) ledger.Decision {
	decision := within(r)
	if decision.Code != ledger.Exceeded {
		return decision
	}
	shortages := decision.Shortages
	if decision = beyond(r); decision.Code == ledger.Admitted {
		decision.Shortages = shortages
	}
	return decision
}
