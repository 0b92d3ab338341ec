package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/ledger"
)

// load makes sure that there are books in memory.
func (c *committer) load() error {
	if c.books != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	stored, version, err := c.store.storage.Read(ctx, c.consumer)
	if err != nil {
		return err
	}
	if version == "" && c.store.Recovery != nil {
		if stored.Used, err = c.store.Recovery.Usage(ctx, c.consumer); err != nil {
			return fmt.Errorf("recover the usage from claims: %w", err)
		}
	}
	books, err := ledger.Restore(stored)
	if err != nil {
		return fmt.Errorf("the stored ledger is damaged: %w", err)
	}
	c.books, c.fresh, c.lost = books, true, false
	if !c.rejected || version == "" || version != c.version {
		// Whatever they were read for, another process has changed them.
		c.untold = c.untold || c.epoch.Load() > 0
		c.epoch.Store(c.store.epochs.Add(1))
	}
	c.rejected = false
	c.saw(version)
	for _, key := range c.store.inflight.replace(c.consumer, books) {
		c.unexpect(key) // another process has ended it
	}
	c.store.released.replace(c.consumer, books)
	return nil
}

// write stores the books. If it reports false without an error, the books were dropped and
// the batch is to be decided again.
func (c *committer) write() (ok bool, err error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	began := time.Now()
	version, err := c.store.storage.Write(ctx, c.consumer, c.books.Snapshot(), c.version)
	c.store.metrics.observeCommit(err, time.Since(began))
	if err == nil {
		c.fresh, c.unknown = true, 0
		c.saw(version)
		return true, nil
	}
	c.books = nil
	rejected := (*RejectedError)(nil)
	switch {
	case errors.Is(err, ErrConflict):
		return false, nil
	case errors.As(err, &rejected):
		c.rejected = true
		return false, fmt.Errorf("write the ledger of %s: %w", describe(c.consumer), err)
	}
	c.lost = true
	switch {
	case c.unknown >= unknownMax:
		c.unknown = 0
		return false, fmt.Errorf("write the ledger of %s: %w", describe(c.consumer), err)
	default:
		// What is stored now tells which operations took effect.
		c.unknown++
		return false, nil
	}
}

// confirm checks that the books in memory are the stored ones. If it reports false without an
// error, they were not and have been dropped.
func (c *committer) confirm() (ok bool, err error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, storageTimeout)
	defer cancel()
	version, err := c.store.storage.CurrentVersion(ctx, c.consumer)
	if err != nil {
		return false, fmt.Errorf("check that the ledger of %s is current: %w", describe(c.consumer), err)
	}
	if version != c.version {
		c.books = nil
		return false, nil
	}
	c.fresh = true
	return true, nil
}
