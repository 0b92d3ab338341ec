package ledgerstore

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Request asks for reservations in the ledger of one consumer. A reservation that replaces something is an amendment: it changes
// what a settled claim holds, see [ledger.Ledger.Amend]. By how much the claim is to grow is decided like a reservation.
type Request struct {
	// Reservations are decided in one commit: all of them or none.
	Reservations []ledger.Reservation
	// Verify, if set, returns the reservations. It reads from the API server, not from a cache, what is still wanted: another
	// process may have met the reason of a reservation, after which its key is not in the ledger any more, and deciding it anew
	// would charge twice. If it returns none, nothing happens and the outcome has no code. It is called again whenever another
	// process may have acted in between. Calls for one key must not overlap.
	Verify func(context.Context) ([]ledger.Reservation, error)
	// Separately decides the reservations one after the other, each by itself, and waits for nothing that is about to be given
	// back. An amendment that is under way counts as admitted: it goes on.
	Separately bool
	// Overdraft admits what exceeds the limits as well. Such a decision has the shortages.
	Overdraft bool
	// IsForExisting leaves half of what may be in flight to objects that are being created.
	IsForExisting bool
	// TakesOver gives reservations that exist already a new sequence: whoever made them may be about to cancel them, and no longer
	// can.
	TakesOver bool
	// Instead has, by the key of a new reservation, that of an earlier one for the same name, which it takes over. What is not
	// there, or holds something else, is not taken over. Another process may be making a claim from what is taken over, or have
	// granted it: as by [Store.Tombstone], it is recorded in the same write that this claim is charged nowhere, see
	// [Store.IsTombstoned].
	Instead map[string]string
	// Extend, if set, extends reservations and amendments that are under way: it makes one claim payload of that of the one in
	// the ledger and the new one. The caller is alone with the claim in this process: it holds the lock of the claim's object,
	// see [Store.LockObject], or of the claim. What a claim that was created directly holds can only be changed once it is
	// settled: until then the decision is NotHeld.
	Extend func(before, after string) string
	// DryRun decides and changes nothing. Decisions have no sequence then.
	DryRun DryRun
}

// DryRun says whether a request changes anything, and how sure its answer has to be.
type DryRun int

const (
	// NotDry stores what is admitted before the answer is given.
	NotDry DryRun = iota
	// Dry changes nothing, and the answer is that of the ledger as it is stored.
	Dry
	// DryLikely changes nothing. That the reservations are admitted comes from the ledger in memory and is only likely; any
	// other answer is certain.
	DryLikely
)

// Outcome is the decision on a request.
type Outcome struct {
	// Code is Admitted for all reservations, or why none of them is. It is Admitted if they were decided separately, and 0 if
	// Verify returned none.
	Code ledger.Code
	// FailedIndex is the index of the reservation that Code is about, unless it is Admitted or Exceeded.
	FailedIndex int
	// Shortages has, if Code is Exceeded, every resource type that fell short, with what the reservations ask of it together.
	Shortages []ledger.Shortage
	// Decisions are, if Code is Admitted, those on each reservation. In a dry run that decides separately, those beyond what may
	// be in flight at a time have no code.
	Decisions []ledger.Decision
	// Taken are the keys of the reservations that were taken over, see [Request.Instead].
	Taken []string
}

// Single returns the decision on the only reservation of a request.
func (o Outcome) Single() ledger.Decision {
	if o.Code == ledger.Admitted {
		return o.Decisions[0]
	}
	return ledger.Decision{Code: o.Code, Shortages: o.Shortages}
}

// existingMax is how many reservations may be in flight for more of objects that exist: the rest is kept
// free for objects that are being created.
const existingMax = ReservationsMax / 2

// Apply decides a request and, if it is admitted, returns after it was stored. A denial first waits, within bounds, for releases
// that are expected, and holds on the current ledger. Reserving a key that is already reserved changes nothing and is admitted,
// unless the request says otherwise.
//
// It returns [ErrBusy] if too much is in flight, and [ErrReleasing] as [WithRetryUntil] says. An error means that nothing was
// decided. The reservations may have been stored all the same when ctx ended while a write was on its way; they then expire
// like any whose object never appeared.
func (s *Store) Apply(ctx context.Context, consumer quotav1alpha1.ConsumerRef, r Request) (Outcome, error) {
	d := &decider{store: s, consumer: consumer, Request: r}
	var err error
	if r.Verify == nil {
		err = s.do(ctx, consumer, d.operation())
	} else {
		err = s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
			reservations, err := r.Verify(ctx)
			// What was decided before belongs to the committer.
			d = &decider{store: s, consumer: consumer, Request: r}
			if d.Reservations = reservations; len(reservations) == 0 || err != nil {
				return nil, err
			}
			return d.operation(), nil
		})
	}
	switch {
	case err != nil:
		return Outcome{}, err // what d says belongs to the committer
	case d.isFull:
		return Outcome{}, ErrBusy
	default:
		return d.outcome, nil
	}
}
