package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/ledgerapi"
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
	isFresh   bool              // the books were read or written since the current batch was taken
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

// load makes sure that there are books in memory, of what was heard of at least, and with certainty of what there is.
func (c *committer) load(care care) error {
	c.store.mu.Lock()
	heard := c.heard
	c.store.mu.Unlock()
	if c.books == nil || care == certain && !c.isFresh || isNewer(heard.allocation, c.books.Object().ResourceVersion) {
		object, ledger, err := c.read()
		if err != nil {
			return err
		}
		return c.take(object, ledger)
	}
	if object := c.books.Object(); heard.ledgerOf == object.UID && isNewer(heard.ledger, c.ledger) {
		return c.loadLedger(object)
	}
	return nil
}

// loadLedger reads the ledger of an allocation, and the allocation only if the one at hand is too old for it.
func (c *committer) loadLedger(object *quotav1alpha1.ResourceQuotaAllocation) error {
	c.books = nil
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	ledger, err := c.store.storage.ReadLedger(ctx, string(object.UID))
	if err == nil && !isTooOld(object, ledger) {
		err = c.take(object, ledger)
		c.isFresh = false
		return err
	}
	if err == nil {
		if object, ledger, err = c.read(); err == nil {
			err = c.take(object, ledger)
		}
	}
	return err
}

// isTooOld tells whether a ledger goes with a later version of an allocation.
func isTooOld(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) bool {
	return ledger != nil && isNewer(ledger.Spec.AllocationVersion, object.ResourceVersion)
}

// isNewer tells whether a resource version comes after another one, or that cannot be told.
func isNewer(version, than string) bool {
	if version == "" || version == than {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

// read reads the allocation and its ledger, which is nil where there is none. What is pending is complete with the
// status that the allocation had when the ledger was written, or has had since.
func (c *committer) read() (*quotav1alpha1.ResourceQuotaAllocation, *quotav1alpha1.AllocationLedger, error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	for range readsMax {
		object, err := c.store.storage.Read(ctx, c.name)
		if apierrors.IsNotFound(err) {
			return nil, nil, ErrGone
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read ResourceQuotaAllocation %s: %w", c.name, err)
		}
		ledger, err := c.store.storage.ReadLedger(ctx, string(object.UID))
		if err != nil {
			return nil, nil, err
		}
		if !isTooOld(object, ledger) {
			return object, ledger, nil
		}
	}
	return nil, nil, fmt.Errorf("read ResourceQuotaAllocation %s: its AllocationLedger goes with a later version each time", c.name)
}

// take makes the books those of an allocation and its ledger as they are stored now.
func (c *committer) take(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) (err error) {
	c.isFresh, c.ledger = true, versionOf(ledger)
	c.books, err = allocation.New(object, ledger)
	return err
}

func versionOf(ledger *quotav1alpha1.AllocationLedger) string {
	if ledger == nil {
		return ""
	}
	return ledger.ResourceVersion
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

// write stores books, which are those in memory from then on: the status, and after that the ledger.
//
// Before the status tells that another spec is observed, the ledger is written as it is: with that, nobody's writes
// succeed any more who knows the former spec only.
func (c *committer) write(books *allocation.Books, status, ledger bool) error {
	if status && !c.books.IsObserved() && c.ledger != "" {
		if err := c.writeLedger(c.books); err != nil {
			return err
		}
	}
	if status {
		if err := c.writeStatus(books); err != nil {
			return err
		}
	}
	if ledger {
		return c.writeLedger(books)
	}
	return nil
}

func (c *committer) writeStatus(books *allocation.Books) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	stored, err := c.store.storage.WriteStatus(ctx, books.Updated())
	c.store.metrics.written("status", err)
	switch {
	case apierrors.IsNotFound(err):
		return ErrGone
	case err != nil:
		return fmt.Errorf("write the status of ResourceQuotaAllocation %s: %w", c.name, err)
	}
	books.StatusStored(stored)
	c.books, c.shown = books, time.Now()
	return nil
}

func (c *committer) writeLedger(books *allocation.Books) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	object := books.Ledger()
	object.ResourceVersion = c.ledger
	version, err := c.store.storage.WriteLedger(ctx, object)
	c.store.metrics.written("ledger", err)
	if err != nil {
		return fmt.Errorf("write the AllocationLedger of ResourceQuotaAllocation %s: %w", c.name, err)
	}
	books.LedgerStored()
	c.books, c.ledger, c.untidy = books, version, time.Time{}
	return nil
}

func isConflict(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, ledgerapi.ErrConflict)
}

// confirm makes sure that the books in memory were made from what is stored. If not, they are then, and it returns
// errAgain.
func (c *committer) confirm() error {
	object, ledger, err := c.read()
	if err != nil {
		return err
	}
	if known := c.books.Object(); object.UID == known.UID && object.ResourceVersion == known.ResourceVersion && versionOf(ledger) == c.ledger {
		c.isFresh = true
		return nil
	}
	if err := c.take(object, ledger); err != nil {
		return err
	}
	return errAgain
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
