package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Reserve decides a reservation whole or not at all and, if it is admitted, returns after it
// was stored. A refusal first waits, within bounds, for releases that are expected, and holds
// on current books. Reserving a key that is already reserved changes nothing and is admitted.
//
// An error means that nothing was decided. The reservation may have been stored all the same
// when ctx ended while a write was on its way; it then expires like any whose object never
// appeared.
func (s *Store) Reserve(ctx context.Context, consumer quotav1alpha1.ConsumerRef, r ledger.Reservation) (ledger.Decision, error) {
	outcome, err := s.decide(ctx, consumer, func(op *operation, outcome *Outcome, full *bool) {
		s.reserving(op, consumer, []ledger.Reservation{r}, outcome, full)
	})
	if err != nil {
		return ledger.Decision{}, err
	}
	return outcome.single(), nil
}

// single is the outcome for the only reservation.
func (o Outcome) single() ledger.Decision {
	if o.Code == ledger.Admitted {
		return o.Decisions[0]
	}
	return ledger.Decision{Code: o.Code, Shortages: o.Shortages}
}

// Cancel drops a reservation, if it is still there, and gives its charges back at once.
// Sequence 0 stands for any.
func (s *Store) Cancel(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) error {
	return s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(books *ledger.Ledger, _ bool) effect {
			if books.Cancel(key, sequence) {
				return changed
			}
			return unconfirmed
		},
		committed: func() { s.inflight.remove(consumer, key, sequence) },
	})
}

// Withdraw is [Store.Cancel] for a reservation that another process may be making a claim from at this
// moment: that its claim gives nothing back is recorded in the same write. The record, [WithdrawnID],
// stays until [Store.Forget]. Call that once no claim of the reservation exists: whoever makes one looks
// for the reservation after that, before the claim is granted.
//
// It reports whether that is recorded. If not, the reservation was not there any more: its claim may be charged.
func (s *Store) Withdraw(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) (bool, error) {
	id := WithdrawnID(ObjectUID(key), sequence)
	var recorded bool
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(books *ledger.Ledger, _ bool) effect {
			recorded = books.IsReleased(id)
			if recorded || !books.ReleaseReserved(id, key, sequence) {
				return unconfirmed
			}
			recorded = true
			return changed
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

// Settle turns a reservation into settled usage. Call it once the claim says Granted at rest.
// It returns at once and takes effect with the next commit.
func (s *Store) Settle(consumer quotav1alpha1.ConsumerRef, key string, sequence int64) {
	op := &operation{
		makesRoom: true,
		apply: func(books *ledger.Ledger, _ bool) effect {
			if books.Settle(key, sequence) {
				return changed
			}
			return nothing
		},
		committed: func() { s.inflight.remove(consumer, key, sequence) },
	}
	s.with(consumer, func(c *committer) bool { return c.submitLazy(op) })
}

// Fitting tells which of the reservations Reserve would admit, or Amend where they replace something, if they were
// asked for one by one in this order. Nothing is reserved. Those beyond what may be in flight at a time do not fit.
// An amendment that is under way does: it goes on.
func (s *Store) Fitting(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) ([]bool, error) {
	fits := make([]bool, len(reservations))
	err := s.do(ctx, consumer, &operation{
		apply: func(books *ledger.Ledger, _ bool) effect {
			clear(fits)
			fresh := unknownTo(books, reservations)
			for i, r := range reservations {
				if isFull(books, reservations[i:i+1]) {
					break
				}
				fits[i] = fit(books, r)
			}
			undo(books, fresh)
			return unconfirmed
		},
	})
	if err != nil {
		return nil, err
	}
	return fits, nil
}

// fit enters a reservation, and tells whether it was admitted.
func fit(books *ledger.Ledger, r ledger.Reservation) bool {
	if len(r.Replaces) == 0 {
		return books.Reserve(r).Code == ledger.Admitted
	}
	if _, known := books.Reservation(r.Key); known {
		return true
	}
	return !isUnsettled(books, r.Key) && books.Amend(r).Code == ledger.Admitted
}

// addInflight notes which reservations were admitted.
func (s *Store) addInflight(consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation, decisions []ledger.Decision) {
	for i, r := range reservations {
		if decisions[i].Code == ledger.Admitted {
			r.Sequence = decisions[i].Sequence
			s.inflight.add(consumer, r)
		}
	}
}
