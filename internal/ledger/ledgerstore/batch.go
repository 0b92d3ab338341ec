package ledgerstore

import (
	"context"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Outcome is the decision on reservations of one consumer that are decided together.
type Outcome struct {
	// Code is Admitted for all of them, or why none of them is.
	Code ledger.Code
	// Fault is the index of the reservation that Code is about, unless it is Admitted or
	// Exceeded.
	Fault int
	// Shortages has, if Code is Exceeded, every resource type that fell short, with what the
	// reservations ask of it together.
	Shortages []ledger.Shortage
	// Decisions are, if Code is Admitted, those on each reservation.
	Decisions []ledger.Decision
}

// ReserveAll decides reservations of one consumer, all of them or none, in one commit. One that exists already
// goes on under a new sequence: whoever made it may be about to cancel it, and no longer can. It is otherwise like
// [Store.Reserve].
func (s *Store) ReserveAll(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) (Outcome, error) {
	return s.decide(ctx, consumer, func(op *operation, outcome *Outcome, full *bool) {
		s.reserving(op, consumer, reservations, outcome, full)
		reserve := op.apply
		op.apply = func(books *ledger.Ledger, releasing bool) effect {
			result := reserve(books, releasing)
			if outcome.Code == ledger.Admitted && takeOver(books, reservations, outcome.Decisions) {
				return changed
			}
			return result
		}
	})
}

// ReserveInstead is [Store.ReserveAll] of reservations that take over what others hold for the same name: earlier has
// their keys, by that of the new reservation. What is not there, or holds something else, is not taken over. It returns
// the keys that were. Another process may be making a claim from what is taken over, or have granted it: as by
// [Store.Withdraw], it is recorded in the same write that this claim is charged nowhere, see [Store.IsWithdrawn].
func (s *Store) ReserveInstead(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation, earlier map[string]string) (outcome Outcome, taken []string, err error) {
	var renamed []ledger.Reservation
	outcome, err = s.decide(ctx, consumer, func(op *operation, outcome *Outcome, full *bool) {
		s.reserving(op, consumer, reservations, outcome, full)
		reserve, committed := op.apply, op.committed
		op.apply = func(books *ledger.Ledger, releasing bool) effect {
			renamed = rename(books, reservations, earlier)
			result := reserve(books, releasing)
			if *full || outcome.Code != ledger.Admitted {
				for i := range renamed {
					books.Reinstate(renamed[i], keyInstead(earlier, renamed[i].Key), withdrawnID(&renamed[i]))
				}
				renamed = nil
				return result
			}
			if takeOver(books, reservations, outcome.Decisions) {
				return changed
			}
			return result
		}
		op.committed = func() {
			for i := range renamed {
				s.inflight.remove(consumer, renamed[i].Key, 0)
				s.released.add(consumer, withdrawnID(&renamed[i]))
			}
			committed()
		}
	})
	if err != nil {
		return Outcome{}, nil, err // what renamed says belongs to the committer
	}
	for i := range renamed {
		taken = append(taken, renamed[i].Key)
	}
	return outcome, taken, nil
}

// rename enters reservations in place of earlier ones that hold the same, and returns those.
func rename(books *ledger.Ledger, reservations []ledger.Reservation, earlier map[string]string) (renamed []ledger.Reservation) {
	for i := range reservations {
		r := &reservations[i]
		held, ok := books.Reservation(earlier[r.Key])
		if !ok || !slices.Equal(held.Charges, r.Charges) {
			continue
		}
		if before, ok := books.Rename(held.Key, *r, withdrawnID(&held)); ok {
			renamed = append(renamed, before)
		}
	}
	return renamed
}

func withdrawnID(r *ledger.Reservation) string { return WithdrawnID(ObjectUID(r.Key), r.Sequence) }

// keyInstead returns the key that a reservation has now which had another.
func keyInstead(earlier map[string]string, key string) string {
	for now, before := range earlier {
		if before == key {
			return now
		}
	}
	return ""
}

// takeOver gives the reservations that existed before a new sequence, and reports whether there are any.
func takeOver(books *ledger.Ledger, reservations []ledger.Reservation, decisions []ledger.Decision) bool {
	var any bool
	for i := range decisions {
		if !decisions[i].Existing {
			continue
		}
		if sequence, ok := books.Renew(reservations[i].Key); ok {
			decisions[i].Sequence, any = sequence, true
		}
	}
	return any
}

// reserving makes an operation one that reserves.
func (s *Store) reserving(op *operation, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation, outcome *Outcome, full *bool) {
	op.apply = func(books *ledger.Ledger, releasing bool) effect {
		fresh := unknownTo(books, reservations)
		if *full = isFull(books, fresh); *full {
			*outcome = Outcome{}
			return postponed
		}
		*outcome = reserveAll(books, reservations)
		switch {
		case outcome.Code == ledger.Exceeded && releasing:
			return postponed
		case outcome.Code != ledger.Admitted || len(fresh) == 0:
			return unconfirmed
		default:
			return changed
		}
	}
	op.committed = func() {
		if outcome.Code == ledger.Admitted {
			s.addInflight(consumer, reservations, outcome.Decisions)
		}
	}
}

// Check answers what ReserveAll would, and changes nothing.
func (s *Store) Check(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) (Outcome, error) {
	return s.check(ctx, consumer, reservations, unconfirmed)
}

// Foresee is [Store.Check] before a decision: where it answers Admitted, that comes from the books in memory and is
// only likely.
func (s *Store) Foresee(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) (Outcome, error) {
	return s.check(ctx, consumer, reservations, nothing)
}

// check is Check where an answer that is Admitted has that effect.
func (s *Store) check(ctx context.Context, consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation, admitted effect) (Outcome, error) {
	return s.decide(ctx, consumer, func(op *operation, outcome *Outcome, full *bool) {
		op.apply = func(books *ledger.Ledger, releasing bool) effect {
			fresh := unknownTo(books, reservations)
			if *full = isFull(books, fresh); *full {
				*outcome = Outcome{}
				return postponed
			}
			*outcome = reserveAll(books, reservations)
			undo(books, fresh)
			switch {
			case outcome.Code == ledger.Exceeded && releasing:
				return postponed
			case outcome.Code == ledger.Admitted:
				return admitted
			default:
				return unconfirmed
			}
		}
	})
}

// decide runs an operation that prepare completes.
func (s *Store) decide(ctx context.Context, consumer quotav1alpha1.ConsumerRef, prepare func(*operation, *Outcome, *bool)) (Outcome, error) {
	var outcome Outcome
	var full bool
	op := &operation{}
	prepare(op, &outcome, &full)
	switch err := s.do(ctx, consumer, op); {
	case err != nil:
		return Outcome{}, err
	case full:
		return Outcome{}, ErrBusy
	default:
		return outcome, nil
	}
}

// unknownTo returns the reservations that are not in the books yet.
func unknownTo(books *ledger.Ledger, reservations []ledger.Reservation) []ledger.Reservation {
	fresh := make([]ledger.Reservation, 0, len(reservations))
	for _, r := range reservations {
		if _, known := books.Reservation(r.Key); !known {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// isFull reports whether books have no room for further reservations until some that are in flight
// end. What would not fit then either is let through, for the ledger to refuse.
func isFull(books *ledger.Ledger, fresh []ledger.Reservation) bool {
	count, size := books.ReservationCount(), books.Bytes()
	if len(fresh) == 0 || count == 0 {
		return false
	}
	for i := range fresh {
		count++
		size += books.Needs(&fresh[i])
	}
	return count > ReservationsMax || size > ledger.BytesMax && size-books.ReservedBytes() <= ledger.BytesMax
}

// reserveAll enters all reservations or none.
func reserveAll(books *ledger.Ledger, reservations []ledger.Reservation) Outcome {
	decisions := make([]ledger.Decision, len(reservations))
	for i, r := range reservations {
		decisions[i] = books.Reserve(r)
		if decisions[i].Code == ledger.Admitted {
			continue
		}
		entered := make([]ledger.Reservation, 0, i)
		for j := range i {
			if !decisions[j].Existing {
				entered = append(entered, reservations[j])
			}
		}
		undo(books, entered)
		outcome := Outcome{Code: decisions[i].Code, Fault: i, Shortages: decisions[i].Shortages}
		if outcome.Code == ledger.Exceeded && len(reservations) > 1 {
			if all := shortagesOf(books, unknownTo(books, reservations)); len(all) > 0 {
				outcome.Shortages = all
			}
		}
		return outcome
	}
	return Outcome{Code: ledger.Admitted, Decisions: decisions}
}

func undo(books *ledger.Ledger, reservations []ledger.Reservation) {
	for _, r := range reservations {
		books.Cancel(r.Key, 0)
	}
}

// shortagesOf tells how reservations fall short that cannot all be entered. The ledger bounds
// what one check may ask, so it is asked type by type, of which it keeps separate books.
func shortagesOf(books *ledger.Ledger, reservations []ledger.Reservation) []ledger.Shortage {
	var shortages []ledger.Shortage
	for _, charges := range byResourceType(reservations) {
		if d := books.Check(charges); d.Code == ledger.Exceeded {
			shortages = append(shortages, d.Shortages...)
		}
	}
	return shortages
}

// byResourceType adds up the charges of reservations, for each resource type in the order in
// which it is first asked for. A sum that overflows stays at its maximum, which no limit allows.
func byResourceType(reservations []ledger.Reservation) [][]ledger.Charge {
	var types [][]ledger.Charge
	for i := range reservations {
		for _, charge := range reservations[i].Charges {
			types = addCharge(types, charge)
		}
	}
	return types
}

func addCharge(types [][]ledger.Charge, charge ledger.Charge) [][]ledger.Charge {
	for i, charges := range types {
		if charges[0].ResourceType != charge.ResourceType {
			continue
		}
		for j := range charges {
			if charges[j].Dimensions == charge.Dimensions {
				total, ok := charges[j].Amount.Add(charge.Amount)
				if !ok {
					total = ledger.AmountMax
				}
				charges[j].Amount = total
				return types
			}
		}
		types[i] = append(charges, charge)
		return types
	}
	return append(types, []ledger.Charge{charge})
}
