package ledgerstore

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/internal/ledger"
)

// effect is what applying an operation did to the books in memory.
type effect int

const (
	// nothing: the books did not change and the answer does not depend on their being current.
	nothing effect = iota
	// changed: the books must be written before the answer is given.
	changed
	// unconfirmed: the books did not change, and the answer is true only of current books.
	unconfirmed
	// postponed: not now. The operation waits for capacity or room that is about to come back,
	// or for its patience to end; then it counts as unconfirmed.
	postponed
)

// errReverify tells a caller that the books were read again since it verified its facts, so
// that another process may have acted on them in between.
var errReverify = errors.New("the ledger was read again since the facts were verified")

// ErrReleasing is returned to a caller that does not wait, see [WithPatience]: what it asks for does not fit now, and may
// fit in a moment, because capacity or room is being given back. Nothing was changed.
var ErrReleasing = errors.New("capacity of this consumer is being given back")

// patienceKey is the key of the context value that WithPatience sets.
type patienceKey struct{}

// WithPatience has decisions never wait for capacity that is being given back. Until that time a decision that would
// wait ends with [ErrReleasing]; after it, the decision is given as it is.
func WithPatience(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, patienceKey{}, until)
}

// tentativeKey is the key of the context value that WithTentative sets.
type tentativeKey struct{}

// WithTentative has what is reserved count as about to be given back, from the moment when it is in the books: whoever
// reserves it waits for decisions on other consumers, and gives it back if one of those is a denial. So denials of others
// wait for it, as for any expected release. The caller ends that with [Store.ReleaseDone] and the same id.
func WithTentative(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, tentativeKey{}, id)
}

// operation is one change to, or question about, the books of one consumer.
type operation struct {
	// ctx bounds an eager operation: one whose caller has left before it is applied is dropped.
	// It is nil for lazy ones.
	ctx context.Context
	// apply performs the operation; releasing tells whether charges are about to be given back.
	// It runs again when a commit must be repeated, and the last run counts, so it must
	// overwrite whatever result an earlier run left.
	apply func(books *ledger.Ledger, releasing bool) effect
	// committed runs once, after the operation took effect and before its caller is told. Until
	// then what apply writes to belongs to the committer, also after the caller has left.
	committed func()
	// epoch, where verified is set, is the reading of the books that the caller's facts go with.
	epoch    uint64
	verified bool
	// patience is when a postponed operation is to be decided come what may; timed is set once
	// a timer for that moment runs.
	patience time.Time
	timed    bool
	// impatient marks an operation that ends with ErrReleasing instead of being postponed, see [WithPatience].
	impatient bool
	// tentative, unless empty, identifies the release that is expected once the operation has changed the books, see
	// [WithTentative].
	tentative string
	// makesRoom marks operations after which postponed ones are worth another look, and
	// growsCapacity those after which claims that were denied may fit.
	makesRoom, growsCapacity bool
	// done receives the outcome once. It is nil for lazy operations.
	done chan error
}

// abandoned tells whether nobody waits for the operation any more.
func (o *operation) abandoned() bool { return o.ctx != nil && o.ctx.Err() != nil }

// finish hands the outcome to the caller.
func (o *operation) finish(err error) {
	if err == nil && o.committed != nil {
		o.committed()
	}
	if o.done != nil {
		o.done <- err
	}
}
