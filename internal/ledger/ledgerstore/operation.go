package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// errReverify means that the committer read the ledger again after the caller verified its facts. Another process may
// have acted on them in between.
var errReverify = errors.New("the ledger was read again since the facts were verified")

// ErrReleasing is the error for a caller that does not wait, see [WithRetryUntil]. The request does not fit now, and
// may fit in a moment, after the return of capacity or room. The ledger is unchanged.
var ErrReleasing = errors.New("capacity of this consumer is being released")

// retryUntilKey is the context key of WithRetryUntil.
type retryUntilKey struct{}

// WithRetryUntil makes decisions fail with [ErrReleasing] instead of waiting for returning capacity. The caller then
// retries. From the time of until on, it gets the decision as it is, without waiting.
func WithRetryUntil(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, retryUntilKey{}, until)
}

// tentativeKey is the context key of WithTentative.
type tentativeKey struct{}

// WithTentative makes the reservations of a request count as an expected release from the moment they are in the
// ledger. The caller waits for decisions on other consumers, and gives its reservations back if one of those is a
// denial. So denials of others wait for it, as for any expected release. The caller ends the expectation with
// [Store.ReleaseDone] and the same id.
func WithTentative(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, tentativeKey{}, id)
}

// operation is one change to, or question about, the ledger of one consumer.
type operation struct {
	// apply performs the operation. isReleasing reports whether the committer expects releases. apply runs again with
	// each repetition of the commit, and must overwrite the results of earlier runs.
	apply func(l *ledger.Ledger, isReleasing bool) groupcommit.Effect
	// committed, if set, runs once, after the operation took effect and before its caller hears of it.
	committed func()
	// Postponed operations may succeed after operations with makesRoom, and denied claims after those with
	// growsCapacity.
	makesRoom, growsCapacity bool
	// maxDelay and leavesDeferred are as in [groupcommit.Operation].
	maxDelay       time.Duration
	leavesDeferred bool
	// needsStock is set for decisions: they need a ledger with everything that exists.
	needsStock bool
	// loadID, with isVerified, is the load of the ledger behind the caller's facts.
	loadID     uint64
	isVerified bool
	// deadline is the end of postponement. An operation with failsFast ends with ErrReleasing instead, see
	// [WithRetryUntil].
	deadline  time.Time
	failsFast bool
	// tentative, if set, is the id of the release to expect once the operation has changed the ledger, see
	// [WithTentative].
	tentative string

	// committer is the committer with the operation, and place the place of the caller among its waiting ones.
	committer *committer
	place     place
	// err is the reason why the operation had no effect although its batch succeeded.
	err error
}

// nothing is the apply function of an operation to commit waiting operations, or to read the ledger.
func nothing(*ledger.Ledger, bool) groupcommit.Effect { return groupcommit.Nothing }

// forGroup returns the operation for the group of a committer.
func (o *operation) forGroup(c *committer) *groupcommit.Operation[*ledger.Ledger] {
	o.committer = c
	return &groupcommit.Operation[*ledger.Ledger]{
		Decision: o, MakesRoom: o.makesRoom, Deadline: o.deadline, MaxDelay: o.maxDelay, LeavesDeferred: o.leavesDeferred,
	}
}

// Apply implements [groupcommit.Decision].
func (o *operation) Apply(l *ledger.Ledger) groupcommit.Effect {
	c := o.committer
	if o.err = nil; o.isVerified && o.loadID != c.loadID.Load() {
		o.err = errReverify
		return groupcommit.Nothing
	}

	if o.needsStock && c.stock.err != nil {
		o.err = fmt.Errorf("the ledger of %s cannot have what exists: %w", describe(c.consumer), c.stock.err)
		return groupcommit.Nothing
	}

	waitsForReleases := c.isReleasing && (o.failsFast || c.waiting.mayJoin(&o.place))
	effect := o.apply(l, waitsForReleases)
	switch {
	case effect == groupcommit.Changed && o.tentative != "":
		c.expectRelease(o.tentative, expectedReleaseMax)
		c.isReleasing = true // for the later operations of the batch
	case effect == groupcommit.Postponed && o.failsFast && time.Now().Before(o.deadline):
		o.err = ErrReleasing
		return groupcommit.Nothing
	case effect == groupcommit.Postponed:
		c.waiting.join(&o.place)
	}
	return effect
}

// Committed implements [groupcommit.Decision].
func (o *operation) Committed(effect groupcommit.Effect) {
	if effect == groupcommit.Changed {
		o.committer.hasChanged = true
		o.committer.hasGrown = o.committer.hasGrown || o.growsCapacity
	}
	if o.err == nil && o.committed != nil {
		o.committed()
	}
}
