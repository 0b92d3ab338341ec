package ledgerstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// committer serialises all operations of this process on the books of one consumer. Its
// goroutine runs only while there is work.
type committer struct {
	store    *Store
	consumer quotav1alpha1.ConsumerRef

	// epoch is another number, never given before, each time that the books are read from storage, but for those that
	// are as they were before a write that was rejected. It is 0 until then. While it stays the same no other process
	// has changed them unnoticed.
	epoch atomic.Uint64
	// latest is the version of the books in memory, or of those that were there last.
	latest atomic.Pointer[Version]
	// bytes is what those books take in storage at most.
	bytes atomic.Int64

	mu       sync.Mutex
	running  bool
	used     time.Time // when the latest operation was taken
	dropped  bool      // it is not used any more, see Store.dropIdle
	eager    []*operation
	lazy     []*operation
	lazyDue  bool
	lazyAt   time.Time // when the lazy operations are due
	failures int       // how often in a row lazy operations failed
	parked   []*operation
	unparked uint64               // how often parked operations were put back in line
	observed Version              // the latest that is to be taken note of later, see observeLater
	expected map[string]time.Time // releases on their way and when that was announced, see Store.ExpectRelease

	// The rest belongs to the running goroutine.
	books    *ledger.Ledger // nil when unknown
	version  Version
	fresh    bool // the books were read or written since the current batch was taken
	unknown  int  // writes of the current batch in a row whose outcome is unknown
	lost     bool // a write had an unknown outcome, and the books were not read since
	rejected bool // the latest write was rejected, and the books were not read since
	untold   bool // the books were read again, and subscribers were not told since
}

// submit queues an eager operation. It reports false if the committer was dropped.
func (c *committer) submit(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	c.eager = append(c.eager, op)
	c.startLocked()
	return true
}

// submitLazy queues a lazy operation, to be committed with the next eager one or after lazyDelay.
// Once the store has stopped, it is lost. It reports false if the committer was dropped.
func (c *committer) submitLazy(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	if c.store.ctx.Err() != nil {
		return true
	}
	c.lazy = append(c.lazy, op)
	if len(c.lazy) == 1 && !c.lazyDue {
		delay := min(lazyDelay<<min(c.failures, 10), lazyDelayMax)
		c.lazyAt = time.Now().Add(delay)
		time.AfterFunc(delay, c.wakeLazy)
	}
	return true
}

func (c *committer) wakeLazy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lazy) > 0 && !time.Now().Before(c.lazyAt) {
		c.lazyDue = true
		c.startLocked()
	}
}

// unpark puts postponed operations back in line, ahead of what arrived after them.
func (c *committer) unpark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unparkLocked()
}

func (c *committer) unparkLocked() {
	c.unparked++
	if len(c.parked) == 0 {
		return
	}
	c.eager = append(c.parked, c.eager...)
	c.parked = nil
	c.startLocked()
}

func (c *committer) startLocked() {
	if !c.running {
		c.running = true
		go c.run()
	}
}

func (c *committer) run() {
	for batch := c.take(); batch != nil; batch = c.take() {
		c.commit(batch)
	}
}

// take returns everything that is waiting, at most batchMax operations, or nil after having
// marked the committer as idle.
func (c *committer) take() []*operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	if len(c.eager) == 0 && !c.lazyDue {
		c.running = false
		return nil
	}
	batch := append(c.lazy, c.eager...)
	c.lazy, c.eager, c.lazyDue = nil, nil, false
	if len(batch) > batchMax {
		c.eager = batch[batchMax:]
		batch = batch[:batchMax:batchMax]
	}
	c.fresh, c.unknown = false, 0
	return batch
}

// commit carries the batch through, however often the books must be read again for it. Each
// operation is finished, parked or, if it is lazy and storage fails, queued again.
func (c *committer) commit(batch []*operation) {
	for {
		batch = dropAbandoned(batch)
		if len(batch) == 0 {
			c.lookAfterLoss()
			return
		}
		settled, err := c.attempt(batch)
		if settled {
			return
		}
		switch rejected := (*RejectedError)(nil); {
		case err == nil:
		case len(batch) > 1 && errors.As(err, &rejected) && rejected.ForContent:
			c.commitApart(batch)
			return
		default:
			c.fail(batch, err)
			return
		}
	}
}

// commitApart commits a batch in parts, since storage does not accept what it comes to: those operations first that
// make the ledger smaller. In the end only the ones fail with which it is not accepted.
func (c *committer) commitApart(batch []*operation) {
	var smaller, others []*operation
	for _, op := range batch {
		if op.makesRoom {
			smaller = append(smaller, op)
		} else {
			others = append(others, op)
		}
	}
	if len(smaller) == 0 || len(others) == 0 {
		half := len(batch) / 2
		smaller, others = batch[:half:half], batch[half:]
	}
	c.commit(smaller)
	c.commit(others)
}

// attempt decides the batch once. It reports whether the batch is settled; if not and err is
// nil, the books have to be read again and the batch decided anew.
func (c *committer) attempt(batch []*operation) (settled bool, err error) {
	if err := c.load(); err != nil {
		return false, fmt.Errorf("read the ledger of %s: %w", describe(c.consumer), err)
	}
	c.forgetTentative(batch)
	releasing, unparked := c.outlook()
	effects, stale := c.applyAll(batch, releasing)
	switch {
	case slices.Contains(effects, changed):
		if ok, err := c.write(); !ok {
			return false, err
		}
		c.store.metrics.observeBatch(effects)
	case slices.Contains(effects, unconfirmed) && !c.fresh:
		if ok, err := c.confirm(); !ok {
			return false, err
		}
	}
	c.settle(batch, effects, stale, unparked)
	return true, nil
}

// applyAll applies the batch in order. Operations whose facts were verified against an earlier
// reading are not applied; stale marks them.
func (c *committer) applyAll(batch []*operation, releasing bool) (effects []effect, stale []bool) {
	effects, stale = make([]effect, len(batch)), make([]bool, len(batch))
	epoch, now := c.epoch.Load(), time.Now()
	for i, op := range batch {
		if op.verified && op.epoch != epoch {
			stale[i] = true
			continue
		}
		effects[i] = op.apply(c.books, releasing)
		if effects[i] == changed && op.tentative != "" {
			c.expect(op.tentative)
			releasing = true // for those that follow in the batch
		}
		if effects[i] == postponed && !now.Before(op.patience) {
			effects[i] = unconfirmed
		}
	}
	return effects, stale
}

// settle finishes or parks every operation of a batch that went through.
func (c *committer) settle(batch []*operation, effects []effect, stale []bool, unparked uint64) {
	c.noteLazy(batch, true)
	var parked []*operation
	var wrote, room, grown bool
	for i, op := range batch {
		switch {
		case stale[i]:
			op.finish(errReverify)
		case effects[i] == postponed && op.impatient:
			op.finish(ErrReleasing)
		case effects[i] == postponed:
			parked = append(parked, op)
		default:
			if effects[i] == changed {
				wrote, room, grown = true, room || op.makesRoom, grown || op.growsCapacity
			}
			op.finish(nil)
		}
	}
	c.park(parked, unparked, room)
	if wrote || c.untold {
		c.store.notify(c.consumer, Change{CapacityGrew: grown || c.untold})
		c.untold = false
	}
}

// park keeps operations for later. Where room was made, by this batch or since the operations
// were decided, they go back in line at once.
func (c *committer) park(ops []*operation, unparked uint64, room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range ops {
		if !op.timed {
			op.timed = true
			time.AfterFunc(time.Until(op.patience), c.unpark)
		}
	}
	c.parked = append(c.parked, ops...)
	if room || c.unparked != unparked {
		c.unparkLocked()
	}
}

// lookAfterLoss makes sure that the books are read again if what they say is not known: they may
// hold reservations that nobody waits for any more.
func (c *committer) lookAfterLoss() {
	if c.lost {
		c.lost = false
		c.submitLazy(&operation{apply: func(*ledger.Ledger, bool) effect { return unconfirmed }})
	}
}

// fail ends the eager operations of a batch with err and keeps the lazy ones for another try.
func (c *committer) fail(batch []*operation, err error) {
	c.noteLazy(batch, false)
	c.lookAfterLoss()
	for _, op := range batch {
		if op.done == nil {
			c.submitLazy(op)
			continue
		}
		op.finish(err)
	}
}

// noteLazy counts how often in a row lazy operations failed.
func (c *committer) noteLazy(batch []*operation, succeeded bool) {
	if !slices.ContainsFunc(batch, func(op *operation) bool { return op.done == nil }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; succeeded {
		c.failures = 0
	}
}

func dropAbandoned(batch []*operation) []*operation {
	kept := batch[:0]
	for _, op := range batch {
		if op.abandoned() {
			op.finish(op.ctx.Err())
			continue
		}
		kept = append(kept, op)
	}
	return kept
}

func describe(consumer quotav1alpha1.ConsumerRef) string {
	return consumer.Kind + " " + consumer.Name
}
