package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bursar/bursar/internal/allocation"
)

// effect is what applying an operation did to the books in memory.
type effect int

const (
	// nothing: the books did not change, and the answer does not depend on their being current.
	nothing effect = iota
	// changed: the books must be written before the answer is given.
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
	// committed, if set, is called with the books once they are stored, before the caller is told.
	committed func(*allocation.Books)
	// settles asks for books that are in line with the cluster.
	settles bool
	done    chan error
}

// committer does everything to the books of one allocation, one batch after the other.
type committer struct {
	store *Store
	name  string
	// queue and isRunning belong to the store's lock, the rest to the goroutine.
	queue     []*operation
	isRunning bool
	books     *allocation.Books // nil when unknown
	isFresh   bool              // the books were read or written since the current batch was taken
}

func (c *committer) run() {
	for batch := c.take(); batch != nil; batch = c.take() {
		c.commit(batch)
	}
}

// take returns everything that is waiting, or nil after having marked the committer as idle.
func (c *committer) take() []*operation {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if len(c.queue) == 0 {
		c.isRunning = false
		return nil
	}
	n := min(len(c.queue), batchMax)
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	c.isFresh = false
	return batch
}

// commit carries a batch through, however often it has to be decided again.
func (c *committer) commit(batch []*operation) {
	settles := slices.ContainsFunc(batch, func(op *operation) bool { return op.settles })
	for failures := 0; ; {
		if batch = dropAbandoned(batch); len(batch) == 0 {
			return
		}
		effects, err := c.attempt(batch, settles)
		switch {
		case err == nil:
			c.finish(batch, effects)
			return
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errUnsettled):
			c.books, settles = nil, true // what is in memory says more than was written
			continue
		}
		c.books = nil
		switch failures++; {
		case apierrors.IsConflict(err):
			failures-- // somebody else got on
		case errors.Is(err, allocation.ErrBehind):
			failures--
			time.Sleep(behindTime)
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
	// errUnsettled asks for a batch to be decided again by books that are in line with the cluster.
	errUnsettled = errors.New("somebody is to be refused")
)

// isFinal tells whether it is of no use to try again.
func isFinal(err error) bool {
	return errors.Is(err, ErrGone) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// attempt decides a batch once and stores what came of it. The error may be errAgain or errUnsettled.
func (c *committer) attempt(batch []*operation, settles bool) ([]effect, error) {
	if settles && !c.isFresh {
		c.books = nil
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	isChanged, err := c.observe(settles)
	if err != nil {
		return nil, err
	}
	effects := make([]effect, len(batch))
	for i, op := range batch {
		effects[i] = op.apply(c.books)
	}
	has := func(e effect) bool { return slices.Contains(effects, e) }
	switch {
	case !settles && (has(short) || has(full)):
		return nil, errUnsettled
	case isChanged || has(changed):
		return effects, c.write()
	case has(unconfirmed) && !c.isFresh:
		return effects, c.confirm()
	}
	return effects, nil
}

// load makes sure that there are books in memory.
func (c *committer) load() error {
	if c.books != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	object, err := c.store.storage.Read(ctx, c.name)
	if apierrors.IsNotFound(err) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("read ResourceQuotaAllocation %s: %w", c.name, err)
	}
	if c.books, err = allocation.New(object); err != nil {
		return err
	}
	c.isFresh = true
	return nil
}

// observe brings the books in line with the cluster where that is asked for or due, and tells whether they changed.
func (c *committer) observe(settles bool) (isChanged bool, err error) {
	isNeeded := !c.books.IsObserved()
	if !settles && !isNeeded && len(c.books.Pending()) < pendingMany {
		return false, nil
	}
	isChanged, err = c.books.Observe(c.store.projects.Observe(c.books.Selector(), c.books.Scopes(), c.books.Pending()))
	if errors.Is(err, allocation.ErrBehind) && !isNeeded {
		return false, nil // another process has seen more, and put it into the books
	}
	if err != nil {
		return false, fmt.Errorf("bring the books of ResourceQuotaAllocation %s in line with the ResourceQuotas: %w", c.name, err)
	}
	return isChanged, nil
}

// write stores the books.
func (c *committer) write() error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	stored, err := c.store.storage.WriteStatus(ctx, c.books.Updated())
	c.store.metrics.observeCommit(err)
	if apierrors.IsNotFound(err) {
		return ErrGone
	}
	if apierrors.IsConflict(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("write the status of ResourceQuotaAllocation %s: %w", c.name, err)
	}
	c.isFresh = true
	c.books, err = allocation.New(stored)
	return err
}

// confirm makes sure that the books in memory are the stored ones. If not, they are then, and it returns errAgain.
func (c *committer) confirm() error {
	before := c.books.Object()
	c.books = nil
	if err := c.load(); err != nil {
		return err
	}
	if now := c.books.Object(); now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
		return errAgain
	}
	return nil
}

// finish tells every caller what came of its operation.
func (c *committer) finish(batch []*operation, effects []effect) {
	for i, op := range batch {
		if effects[i] == full {
			op.done <- ErrBusy
			continue
		}
		if op.committed != nil {
			op.committed(c.books)
		}
		op.done <- nil
	}
}
