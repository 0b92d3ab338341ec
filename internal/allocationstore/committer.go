package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
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
	// settles asks for books that are in line with the cluster as it is seen, and needsLive, if set, whether they have
	// to be with the cluster as it is.
	settles   bool
	needsLive func(*allocation.Books) bool
	done      chan error
}

// care is how sure of the books a batch has to be decided.
type care int

const (
	// usual: as they are in memory. A write proves them.
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
	heard     string            // the latest resource version that was heard of
	books     *allocation.Books // nil when unknown
	isFresh   bool              // the books were read or written since the current batch was taken
	unwritten time.Time         // since when the books say what is not stored, and need not be at once
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
	n := min(len(c.queue), batchMax)
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	c.isFresh = false
	return batch
}

// commit carries a batch through, however often it has to be decided again.
func (c *committer) commit(batch []*operation) {
	care := usual
	if slices.ContainsFunc(batch, func(op *operation) bool { return op.settles }) {
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
		case apierrors.IsConflict(err):
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
	if care == certain && !c.isFresh || c.isBehind() {
		c.books = nil
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	if err := c.observe(batch, care); err != nil {
		return nil, err
	}
	effects := make([]effect, len(batch))
	for i, op := range batch {
		effects[i] = op.apply(c.books)
	}
	has := func(e effect) bool { return slices.Contains(effects, e) }
	switch {
	case care != certain && (has(short) || has(full)):
		return nil, errUncertain
	case has(changed) || c.isDue():
		return effects, c.write()
	case has(unconfirmed) && !c.isFresh:
		return effects, c.confirm()
	}
	return effects, nil
}

// isDue tells whether what the books say and is not stored should be. As long as all projects take as much together
// as is stored, it can wait for a write that has to be made anyway: what is different is that raises were made.
func (c *committer) isDue() bool {
	return !c.unwritten.IsZero() && (!c.books.IsStoredTotal() || time.Since(c.unwritten) >= WriteDelay)
}

// isBehind tells whether another version of the allocation was heard of than the books in memory are of.
func (c *committer) isBehind() bool {
	c.store.mu.Lock()
	heard := c.heard
	c.store.mu.Unlock()
	if c.books == nil || heard == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(heard, c.books.Object().ResourceVersion)
	return err != nil || order > 0
}

// load makes sure that there are books in memory.
func (c *committer) load() error {
	if c.books != nil {
		return nil
	}
	object, err := c.read()
	if err != nil {
		return err
	}
	return c.take(object)
}

// read reads the allocation.
func (c *committer) read() (*quotav1alpha1.ResourceQuotaAllocation, error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	object, err := c.store.storage.Read(ctx, c.name)
	if apierrors.IsNotFound(err) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("read ResourceQuotaAllocation %s: %w", c.name, err)
	}
	return object, nil
}

// take makes the books those of an allocation as it is stored now.
func (c *committer) take(object *quotav1alpha1.ResourceQuotaAllocation) (err error) {
	c.isFresh, c.unwritten = true, time.Time{}
	c.books, err = allocation.New(object)
	return err
}

// observe brings the books in line with the cluster where that is asked for or due.
//
// Books that were never in line with the spec that the allocation has now are brought in line with what the API server
// lists after they were read: what was given before is in no books, and no watch tells that it has seen all of it.
func (c *committer) observe(batch []*operation, care care) error {
	isLive := !c.books.IsObserved() || slices.ContainsFunc(batch, func(op *operation) bool { return op.needsLive != nil && op.needsLive(c.books) })
	if care == usual && !isLive && len(c.books.Pending()) < pendingMany {
		return nil
	}
	if care == certain && !isLive {
		if err := c.refresh(time.Now().Add(-staleTime)); err != nil {
			return err
		}
	}
	var isChanged bool
	err := allocation.ErrBehind
	if !isLive {
		isChanged, err = c.books.Observe(c.look())
	}
	if errors.Is(err, allocation.ErrBehind) {
		if err = c.refresh(time.Now()); err != nil {
			return err
		}
		isChanged, err = c.books.ObserveLive(c.look())
	}
	if err != nil {
		return fmt.Errorf("bring the books of ResourceQuotaAllocation %s in line with the ResourceQuotas: %w", c.name, err)
	}
	if isChanged && c.unwritten.IsZero() {
		c.unwritten = time.Now()
	}
	return nil
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
	return c.take(stored)
}

// confirm makes sure that the books in memory were made from what is stored. If not, they are then, and it returns
// errAgain.
func (c *committer) confirm() error {
	object, err := c.read()
	if err != nil {
		return err
	}
	if known := c.books.Object(); object.UID == known.UID && object.ResourceVersion == known.ResourceVersion {
		c.isFresh = true
		return nil
	}
	if err := c.take(object); err != nil {
		return err
	}
	return errAgain
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
