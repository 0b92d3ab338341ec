package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// load reads the ledger unless there is a copy in memory.
func (c *committer) load() error {
	if c.ledger != nil {
		return nil
	}
	if err := c.read(); err != nil {
		return fmt.Errorf("read the ledger of %s: %w", describe(c.consumer), err)
	}
	return nil
}

// read reads the ledger from storage, or takes the copy from the list at the start of the process.
func (c *committer) read() error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	notice, began := c.latestNotice(), time.Now()
	stored, version, isFresh, err := c.find(ctx)
	if err != nil {
		return err
	}
	restored, err := ledger.Restore(stored)
	if err != nil {
		return fmt.Errorf("the stored ledger is damaged: %w", err)
	}
	restored.SetTypes(c.store.Types)
	c.escrow.setTypes(c.store.Types)
	c.ledger, c.isFresh = restored, isFresh
	c.store.observed.set(c.consumer, ObservedIn(restored.Observations()))
	c.stock.reset()
	if !c.isRejected || version == "" || version != c.version {
		// Another process has changed the ledger.
		c.wasReread = c.wasReread || c.loadID.Load() > 0
		c.loadID.Store(c.store.loadIDs.Add(1))
	}
	c.isRejected = false
	c.setVersion(version)
	c.escrow.found(restored, c.store.holder, began, c.mayLand && version == c.unanswered)
	c.mayLand = c.mayLand && version == c.unanswered
	for _, key := range c.store.inflight.replace(c.consumer, restored, c.endNotice(notice, version)) {
		c.releaseDone(key) // another process has ended it
	}
	c.offerJournal()
	return nil
}

// find returns the stored ledger. It is not fresh if it comes from the list at the start of the process.
func (c *committer) find(ctx context.Context) (stored ledger.Snapshot, version Version, isFresh bool, err error) {
	if first := c.first.Swap(nil); first != nil {
		return first.snapshot, first.version, false, nil
	}
	stored, version, err = c.store.storage.Read(ctx, c.consumer)
	return stored, version, true, err
}

// write stores the copy. If another process wrote first or the outcome is unknown, it drops the copy and returns
// [groupcommit.ErrAgain]: the stored ledger shows the effects of operations.
func (c *committer) write() error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	began := time.Now()
	c.escrow.replenish(c.ledger, c.store.holder, c.share(), began, c.store.Clock.Now())
	c.ledger.BoundJournal()
	version, err := c.store.storage.Write(ctx, c.consumer, c.ledger.Snapshot(), c.version)
	c.store.metrics.observeCommit(err, time.Since(began))
	if err == nil {
		c.isFresh, c.unknown = true, 0
		c.setVersion(version)
		c.written.Store(&began)
		c.mayLand = false
		c.escrow.found(c.ledger, c.store.holder, began, false)
		c.ledger.MarkStored()
		c.stockStored()
		c.offerJournal()
		return nil
	}
	c.ledger = nil
	failed := fmt.Errorf("write the ledger of %s: %w", describe(c.consumer), err)
	rejected := (*RejectedError)(nil)
	switch {
	case errors.Is(err, ErrConflict):
		return groupcommit.ErrAgain
	case errors.As(err, &rejected):
		c.isRejected = true
		if rejected.ForContent {
			return groupcommit.Divisible(failed)
		}
		return failed
	}
	c.mayLand, c.unanswered = true, c.version
	c.rereadAfterLoss()
	if c.unknown >= unknownOutcomesMax {
		c.unknown = 0
		return failed
	}
	c.unknown++
	return groupcommit.ErrAgain
}

// rereadAfterLoss makes the group read the ledger again even if all callers leave: it may hold their reservations. If
// the write has not taken effect by then, it looks again once it no longer can.
func (c *committer) rereadAfterLoss() {
	if c.isLost {
		return
	}
	c.isLost = true
	c.commitLater(&operation{
		apply: nothing,
		committed: func() {
			c.isLost = false
			if c.mayLand {
				time.AfterFunc(c.store.ReservationLifetime, c.lookForLateWrite)
			}
		},
	})
}

// lookForLateWrite reads the ledger in case a write with an unknown outcome took effect after all. A process without
// others watches no ledgers, so nothing else may inform it.
func (c *committer) lookForLateWrite() {
	if c.store.ctx.Err() != nil {
		return
	}
	c.store.with(c.consumer, func(c *committer) bool {
		return c.commitLater(&operation{apply: func(*ledger.Ledger, bool) groupcommit.Effect {
			if c.mayLand {
				return groupcommit.Unconfirmed
			}
			return groupcommit.Nothing
		}})
	})
}

// confirm compares the version of the copy with the stored one. If they differ, it drops the copy and returns
// [groupcommit.ErrAgain].
func (c *committer) confirm() error {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	began := time.Now()
	version, err := c.store.storage.CurrentVersion(ctx, c.consumer)
	if err != nil {
		return fmt.Errorf("check that the ledger of %s is current: %w", describe(c.consumer), err)
	}
	if version != c.version {
		c.ledger = nil
		return groupcommit.ErrAgain
	}
	c.isFresh = true
	c.escrow.confirm(began)
	return nil
}
