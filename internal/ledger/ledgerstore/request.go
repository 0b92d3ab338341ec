package ledgerstore

import (
	"context"
	"errors"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Request asks for reservations in the ledger of one consumer.
type Request struct {
	// Reservations are for one commit: all of them or none.
	Reservations []ledger.Reservation
	// Separately decides each reservation by itself, one after the other, without waiting for expected releases.
	Separately bool
	// Overdraft also admits reservations beyond the limits. Such a decision has the shortages.
	Overdraft bool
	// TakesOver gives existing reservations a new sequence: their former owner can no longer cancel them.
	TakesOver bool
	// Instead maps the key of a new reservation to the key of an earlier one to take over, for an earlier create of the
	// same name. A takeover requires equal charges, and an earlier reservation that awaits its object: the object counts
	// all the same if it appears.
	Instead map[string]string
	// Spare must fit beside what the ledger has before the request, or Apply returns [ErrTooMuchHeld].
	Spare Spare
	// DryRun decides without changing anything. Decisions then have no sequence.
	DryRun DryRun
}

// Spare keeps one requester from holding all quota with requests that may still fail. The zero value demands nothing.
type Spare struct {
	// Charges are the charges of the request, with what the requester holds including the request. So at least as much
	// stays free for others as the requester holds.
	Charges []ledger.Charge
	// Reservations is the same for the number of reservations in flight.
	Reservations int
}

// isIn reports whether a ledger can spare this. It checks each charge by itself, because a ledger bounds the charges of
// one check.
func (s Spare) isIn(l *ledger.Ledger) bool {
	if s.Reservations > 0 && l.ReservationCount()+s.Reservations > ReservationsMax {
		return false
	}
	return !slices.ContainsFunc(s.Charges, func(charge ledger.Charge) bool {
		return l.Check([]ledger.Charge{charge}).Code == ledger.Exceeded
	})
}

// DryRun selects whether a request changes anything, and how certain its answer must be.
type DryRun int

const (
	// NotDry stores admitted reservations before it answers.
	NotDry DryRun = iota
	// Dry changes nothing and answers from the stored ledger.
	Dry
	// DryLikely changes nothing. Admitted is only likely, since it comes from the copy in memory; any other answer is
	// certain.
	DryLikely
)

// Outcome is the decision on a request.
type Outcome struct {
	// Code is Admitted, or the reason against all reservations. With Separately it is always
	// Admitted.
	Code ledger.Code
	// FailedIndex is the index of the reservation behind Code, unless Code is Admitted or Exceeded.
	FailedIndex int
	// Shortages are, if Code is Exceeded, the shortages of all resource types, with the sums over the reservations.
	Shortages []ledger.Shortage
	// Decisions are, if Code is Admitted, those on each reservation. In a separate dry run, reservations beyond the
	// possible number in flight have no code.
	Decisions []ledger.Decision
	// Taken are the keys of the reservations taken over, see [Request.Instead].
	Taken []string
	// Raised are the reservations of earlier attempts of the same requests that this one has raised, as they were before.
	Raised []ledger.Reservation
}

// RaisedFrom returns the reservation with a key as it was before the request raised it, or nil.
func (o Outcome) RaisedFrom(key string) *ledger.Reservation {
	for i := range o.Raised {
		if o.Raised[i].Key == key {
			return &o.Raised[i]
		}
	}
	return nil
}

// Single returns the decision on the only reservation of a request.
func (o Outcome) Single() ledger.Decision {
	if o.Code == ledger.Admitted {
		return o.Decisions[0]
	}
	return ledger.Decision{Code: o.Code, Shortages: o.Shortages}
}

// A denial that counts some objects wrongly is decided again every catchUpPoll, and fails after catchUpMax. The
// inventory learns of later policies and namespaces several times a second.
const catchUpPoll, catchUpMax = 50 * time.Millisecond, 2 * time.Second

// Apply decides a request. It returns an admission after storing it. A denial holds on the current ledger, and first
// waits a limited time for expected releases, and for an inventory that counts every object once. Apply admits an
// existing key again and changes nothing, unless the request has other options.
//
// Apply returns [ErrBusy] if too much is in flight, [ErrTooMuchHeld] if only the request's Spare does not fit,
// [ErrSliced] if another process holds the quota in a slice, and [ErrReleasing] with [WithRetryUntil]. On an error
// there is no decision. If ctx ended during a write, storage may have the reservations all the same; they then expire
// like all without an object.
func (s *Store) Apply(ctx context.Context, consumer quotav1alpha1.ConsumerRef, r Request) (Outcome, error) {
	until := postponeDeadline(ctx) // once for all decisions
	outcome, rests, err := s.decide(ctx, consumer, r, until)
	if err != nil || outcome.Code != ledger.Exceeded || len(rests.kinds) == 0 {
		return outcome, err
	}

	// What was free before the request counts.
	if err := s.Inventory.CatchUp(ctx, rests.kinds); err != nil {
		return Outcome{}, err
	}
	for giveUp := time.Now().Add(catchUpMax); ; {
		outcome, rests, err = s.decide(ctx, consumer, r, until)
		if err != nil || !rests.isOutdated() {
			return outcome, err
		}
		select {
		case <-ctx.Done():
			return Outcome{}, errOutdated
		case <-time.After(catchUpPoll):
		}
		if time.Now().After(giveUp) {
			return Outcome{}, errOutdated
		}
	}
}

// denialBasis is what a denial rests on.
type denialBasis struct {
	// kinds are those of the objects that use the quota in demand, or may.
	kinds []string
	// outdated are kinds that the ledger may count wrongly for a moment, see [stock].
	outdated []string
}

// isOutdated reports whether the ledger may count too much of what is short.
func (b denialBasis) isOutdated() bool {
	return slices.ContainsFunc(b.outdated, func(kind string) bool { return slices.Contains(b.kinds, kind) })
}

// errOutdated means that another process has observed, or a request was reviewed, by later policies or namespaces than
// this process knows.
var errOutdated = errors.New("this replica of Bursar does not know the latest policies or namespaces yet")

// decide decides a request, and returns what a denial rests on. A denial waits for expected releases until a time.
func (s *Store) decide(ctx context.Context, consumer quotav1alpha1.ConsumerRef, r Request, until time.Time) (Outcome, denialBasis, error) {
	d := &decider{store: s, consumer: consumer, Request: r}
	op := d.operation()
	op.deadline = until
	err := s.do(ctx, consumer, op)
	switch {
	case err != nil:
		return Outcome{}, denialBasis{}, err // d belongs to the committer
	case d.isFull:
		return Outcome{}, denialBasis{}, ErrBusy
	case d.isHeld:
		return Outcome{}, denialBasis{}, ErrSliced
	case d.isTooMuch:
		return Outcome{}, denialBasis{}, ErrTooMuchHeld
	default:
		return d.outcome, d.rests, nil
	}
}
