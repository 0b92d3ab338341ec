package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/allocation"
)

// effect is what applying an operation did to the books in memory.
type effect int

const (
	// nothing: the books did not change, and the answer does not depend on their being current.
	nothing effect = iota
	// changed: what is different must be stored before the answer is given.
	changed
	// unconfirmed: the books did not change, and the answer is true only of current books.
	unconfirmed
	// short and full are as unconfirmed, and true only of books that are in line with the cluster as it is seen.
	short
	full
)

// operation is one change to, or question about, the books of an allocation.
type operation struct {
	// ctx is that of the caller. An operation whose caller has left before it is applied is dropped.
	ctx context.Context
	// apply runs again when the books had to be read again; the last run counts.
	apply func(*allocation.Books) effect
	// decided, if set, is called with the books by which the operation was, before the caller is told. What of them need
	// not be stored at once may not be.
	decided func(*allocation.Books)
	// settles asks for books that are in line with the cluster as it is seen, and needsLive, if set, whether they have
	// to be with the cluster as it is.
	settles   bool
	needsLive func(*allocation.Books) bool
	done      chan error
}

// isSettling tells whether a batch is one of those that settle. All of it is, or nothing.
func isSettling(batch []*operation) bool { return batch[0].settles }

// care is how sure of the books a batch has to be decided.
type care int

const (
	// usual: as they are in memory. A write of the ledger proves what is pending.
	usual care = iota
	// settled: in line with the cluster as it is seen, too.
	settled
	// certain: and read since the batch was taken. Somebody may be refused by them.
	certain
)

// committer does everything to the books of one allocation, one batch after the other.
type committer struct {
	store *Store
	name  string
	// queue, isRunning and heard belong to the store's lock, the rest to the goroutine.
	queue     []*operation
	isRunning bool
	heard     versions          // the latest that were heard of
	books     *allocation.Books // nil when unknown
	ledger    string            // the resource version of the ledger that the books are of
	isFresh   bool              // all of the books was read since the current batch was taken
	shown     time.Time         // when the status was written last
	untidy    time.Time         // since when the ledger has raises that need not be in it any more
}

// versions are resource versions of an allocation and of the ledger of the one with a UID.
type versions struct {
	allocation, ledger string
	ledgerOf           types.UID
}

func (c *committer) run() {
	for batch := c.next(); batch != nil; batch = c.next() {
		c.commit(batch)
	}
}

// next returns everything that is waiting, or nil after having marked the committer as idle.
func (c *committer) next() []*operation {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if len(c.queue) == 0 {
		c.isRunning = false
		if c.books == nil {
			delete(c.store.committers, c.name) // nothing is known of it that is worth keeping
		}
		return nil
	}
	// What settles may write the status, which nothing else should wait for.
	n := 1
	for n < min(len(c.queue), batchMax) && c.queue[n].settles == c.queue[0].settles {
		n++
	}
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	c.isFresh = false
	return batch
}

// commit carries a batch through, however often it has to be decided again.
func (c *committer) commit(batch []*operation) {
	care := usual
	if isSettling(batch) {
		care = settled
	}
	for failures := 0; ; {
		if batch = dropAbandoned(batch); len(batch) == 0 {
			return
		}
		effects, err := c.attempt(batch, care)
		switch {
		case err == nil:
			c.finish(batch, effects)
			return
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errUncertain):
			c.books, care = nil, certain // what is in memory says more than was written
			continue
		}
		c.books = nil
		switch failures++; {
		case isConflict(err):
			failures-- // somebody else got on
		case failures >= attemptsMax || isFinal(err):
			for _, op := range batch {
				op.done <- err
			}
			return
		}
	}
}

func dropAbandoned(batch []*operation) []*operation {
	return slices.DeleteFunc(batch, func(op *operation) bool {
		err := op.ctx.Err()
		if err != nil {
			op.done <- err
		}
		return err != nil
	})
}

var (
	// errAgain asks for a batch to be decided again, by the books that are in memory now.
	errAgain = errors.New("the books were changed by another process")
	// errUncertain asks for a batch to be decided again with more care.
	errUncertain = errors.New("somebody is to be refused")
)

// isFinal tells whether it is of no use to try again.
func isFinal(err error) bool {
	return errors.Is(err, ErrGone) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// attempt decides a batch once and stores what came of it. The error may be errAgain or errUncertain.
func (c *committer) attempt(batch []*operation, care care) ([]effect, error) {
	if err := c.load(care); err != nil {
		return nil, err
	}
	books, err := c.observe(batch, care)
	if err != nil {
		return nil, err
	}
	effects := make([]effect, len(batch))
	for i, op := range batch {
		effects[i] = op.apply(books)
	}
	has := func(e effect) bool { return slices.Contains(effects, e) }
	var status, ledger bool
	switch {
	case care != certain && (has(short) || has(full)):
		return nil, errUncertain
	case has(changed) || books.IsRoomChanged():
		status, ledger = books.IsStatusChanged(), books.IsLedgerChanged() || books.IsRoomChanged()
	case isSettling(batch):
		status, ledger = c.isShowDue(books), c.isTidyDue(books)
	}
	if err := c.write(books, status, ledger); err != nil {
		return nil, err
	}
	if has(unconfirmed) && !c.isFresh {
		if err := c.confirm(); err != nil {
			return nil, err
		}
	}
	c.tell(batch, books)
	return effects, nil
}

// isShowDue tells whether the status should be written although nothing is decided otherwise by it: raises were
// admitted, or made that were.
func (c *committer) isShowDue(books *allocation.Books) bool {
	return !books.IsShown() && time.Since(c.shown) >= ShowDelay && c.store.shows.Allow()
}

// isTidyDue tells whether the ledger should be written although nothing is decided otherwise by it. The status does
// not wait, then: the ledger is written after it.
func (c *committer) isTidyDue(books *allocation.Books) bool {
	switch {
	case !books.IsLedgerChanged() || books.IsStatusChanged():
		c.untidy = time.Time{}
	case c.untidy.IsZero():
		c.untidy = time.Now()
	}
	return !c.untidy.IsZero() && time.Since(c.untidy) >= tidyDelay
}

// observe returns the books in line with the cluster where that is asked for or due, and otherwise as they are in memory.
//
// Books that were never in line with the spec that the allocation has now are brought in line with what the API server
// lists after they were read: what was given before is in no books, and no watch tells that it has seen all of it.
func (c *committer) observe(batch []*operation, care care) (*allocation.Books, error) {
	isLive := !c.books.IsObserved() || slices.ContainsFunc(batch, func(op *operation) bool { return op.needsLive != nil && op.needsLive(c.books) })
	if care == usual && !isLive && len(c.books.Pending()) < pendingMany {
		return c.books, nil
	}
	if care == certain && !isLive {
		if err := c.refresh(time.Now().Add(-staleTime)); err != nil {
			return nil, err
		}
	}
	var books *allocation.Books
	err := allocation.ErrBehind
	if !isLive {
		books, err = c.books.Observe(c.look())
	}
	if errors.Is(err, allocation.ErrBehind) {
		if err = c.refresh(time.Now()); err != nil {
			return nil, err
		}
		books, err = c.books.ObserveLive(c.look())
	}
	if err != nil {
		return nil, fmt.Errorf("bring the books of ResourceQuotaAllocation %s in line with the ResourceQuotas: %w", c.name, err)
	}
	return books, nil
}

// look returns the projects of the allocation as they are seen.
func (c *committer) look() allocation.Observation {
	return c.store.projects.Observe(c.books.Selector(), c.books.Scopes(), c.books.Pending())
}

// refresh makes sure that what is seen is not older.
func (c *committer) refresh(since time.Time) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, refreshTimeout)
	defer cancel()
	return c.store.projects.Refresh(ctx, since)
}

// tell hands books to those who asked for them.
func (c *committer) tell(batch []*operation, books *allocation.Books) {
	for _, op := range batch {
		if op.decided != nil {
			op.decided(books)
		}
	}
}

// finish tells every caller what came of its operation.
func (c *committer) finish(batch []*operation, effects []effect) {
	for i, op := range batch {
		if effects[i] == full {
			op.done <- ErrBusy
		} else {
			op.done <- nil
		}
	}
}
