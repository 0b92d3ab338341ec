package ledgerstore

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// errReverify tells a caller that the books were read again since it verified its facts, so
// that another process may have acted on them in between.
var errReverify = errors.New("the ledger was read again since the facts were verified")

// ErrReleasing is returned to a caller that does not wait, see [WithRetryUntil]: what it asks for does not fit now, and may
// fit in a moment, because capacity or room is being given back. Nothing was changed.
var ErrReleasing = errors.New("capacity of this consumer is being given back")

// retryUntilKey is the key of the context value that WithRetryUntil sets.
type retryUntilKey struct{}

// WithRetryUntil has decisions never wait for capacity that is being given back. Until that time a decision that would
// wait ends with [ErrReleasing]; after it, the decision is given as it is.
func WithRetryUntil(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, retryUntilKey{}, until)
}

// tentativeKey is the key of the context value that WithTentative sets.
type tentativeKey struct{}

// WithTentative has what is reserved count as about to be given back, from the moment when it is in the books: whoever
// reserves it waits for decisions on other consumers, and gives it back if one of those is a denial. So denials of others
// wait for it, as for any expected release. The caller ends that with [Store.ReleaseDone] and the same id.
func WithTentative(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, tentativeKey{}, id)
}

// operation is one change to, or question about, the ledger of one consumer.
type operation struct {
	// apply performs the operation. isReleasing reports whether charges are about to be given back. apply runs again when a
	// commit is repeated, and must overwrite the result of an earlier run.
	apply func(l *ledger.Ledger, isReleasing bool) groupcommit.Effect
	// committed, if set, runs once, after the operation took effect and before its caller hears of it.
	committed func()
	// makesRoom marks operations after which postponed ones may succeed, and growsCapacity those after which claims that were
	// denied may fit.
	makesRoom, growsCapacity bool
	// epoch, if isVerified is set, is the reading of the ledger that the caller's facts go with.
	loadID     uint64
	isVerified bool
	// deadline is until when the operation may be postponed. One that does not wait ends with ErrReleasing instead, see
	// [WithRetryUntil].
	deadline  time.Time
	failsFast bool
	// tentative, unless empty, identifies the release to expect once the operation has changed the ledger, see [WithTentative].
	tentative string

	// committer is where the operation was submitted.
	committer *committer
	// err is why the operation had no effect although its batch had one.
	err error
}

// submitted returns the operation for the group of a committer.
func (o *operation) submitted(c *committer) *groupcommit.Operation[*ledger.Ledger] {
	o.committer = c
	return &groupcommit.Operation[*ledger.Ledger]{Decision: o, MakesRoom: o.makesRoom, Deadline: o.deadline}
}

// Apply implements [groupcommit.Decision].
func (o *operation) Apply(l *ledger.Ledger) groupcommit.Effect {
	c := o.committer
	if o.err = nil; o.isVerified && o.loadID != c.loadID.Load() {
		o.err = errReverify
		return groupcommit.Nothing
	}
	effect := o.apply(l, c.isReleasing)
	switch {
	case effect == groupcommit.Changed && o.tentative != "":
		c.expectRelease(o.tentative)
		c.isReleasing = true // for the operations that follow in the batch
	case effect == groupcommit.Postponed && o.failsFast && time.Now().Before(o.deadline):
		o.err = ErrReleasing
		return groupcommit.Nothing
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
