package ledgerstore

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// flushesMax bounds the number of concurrent flushes of ledgers.
	flushesMax = 16
	// flushPause is the time between two flushes of the same ledgers. An admission from a slice may have to wait for the
	// inventory.
	flushPause = 20 * time.Millisecond
)

// Flush commits what waits for another commit, and returns the slices. A process calls it before it ends: then no other
// process has to find its unfinished work. The error is the first one of any ledger.
func (s *Store) Flush(ctx context.Context) error {
	s.isClosing.Store(true)
	for waiting := s.unflushed(); len(waiting) > 0; {
		if err := s.flush(ctx, waiting); err != nil {
			return err
		}
		if waiting = s.unflushed(); len(waiting) == 0 {
			return nil
		}
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
			return fmt.Errorf("wait until everything can be committed: %w", ctx.Err())
		}
	}
	return nil
}

// unflushed returns the consumers with something to commit, or with a commit under way.
func (s *Store) unflushed() (waiting []quotav1alpha1.ConsumerRef) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for consumer, c := range s.byRef {
		if c.group.HasWork() || c.escrow.isHeld() {
			waiting = append(waiting, consumer)
		}
	}
	return waiting
}

func (s *Store) flush(ctx context.Context, waiting []quotav1alpha1.ConsumerRef) error {
	var flushes errgroup.Group // without a context: a failed one does not stop the others
	flushes.SetLimit(flushesMax)
	for _, consumer := range waiting {
		flushes.Go(func() error {
			return s.do(ctx, consumer, &operation{apply: nothing})
		})
	}
	return flushes.Wait()
}
