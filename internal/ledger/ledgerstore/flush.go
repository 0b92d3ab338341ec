package ledgerstore

import (
	"context"

	"golang.org/x/sync/errgroup"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// flushesMax bounds the ledgers that are flushed at the same time.
const flushesMax = 16

// Flush commits the settlements and other housekeeping that wait for later commits, and returns the slices. A process
// calls it before it ends, so that no other process has to find out what was left. Errors are those of the first ledger
// that fails.
func (s *Store) Flush(ctx context.Context) error {
	s.isClosing.Store(true)
	for {
		waiting := s.unflushed()
		if len(waiting) == 0 {
			return nil
		}
		if err := s.flush(ctx, waiting); err != nil {
			return err
		}
	}
}

// unflushed returns the consumers whose ledgers have something to commit, or are being committed.
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
	var flushes errgroup.Group // without a context: one that fails does not stop the others
	flushes.SetLimit(flushesMax)
	for _, consumer := range waiting {
		flushes.Go(func() error {
			return s.do(ctx, consumer, &operation{apply: nothing})
		})
	}
	return flushes.Wait()
}
