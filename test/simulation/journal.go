package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/test/replayed"
)

// archive is where all replicas append the journal. It outlives them.
type archive struct {
	world *World

	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef][]journal.Entry
}

// appending is a replica with access to the archive. It implements [journal.Sink].
type appending struct {
	*archive
	ended context.Context //nolint:containedctx // the one of the process
}

var errNoRoom = errors.New("the disk is full")

// Append implements [journal.Sink]. The archive may store only a part of the entries of an ending process.
func (a appending) Append(ctx context.Context, entries []journal.Entry) error {
	w := a.world
	if !w.calm() {
		if w.shape.standsStill {
			return errNoRoom
		}
		pause(ctx, w.upTo(w.shape.latency))
		isLost := w.shape.faults > 0 && w.roll(w.shape.faults) == 0
		if isLost || a.ended.Err() != nil {
			a.store(entries[:w.roll(len(entries)+1)])
			return errNoRoom
		}
	}
	a.store(entries)
	return nil
}

// Probe implements [journal.Sink].
func (appending) Probe(context.Context) error { return nil }

// Close implements [journal.Sink].
func (appending) Close() error { return nil }

func (a *archive) store(entries []journal.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		a.byConsumer[e.Consumer] = append(a.byConsumer[e.Consumer], e)
	}
}

// of returns the entries of a consumer.
func (a *archive) of(consumer quotav1alpha1.ConsumerRef) ([]journal.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return replayed.Ordered(a.byConsumer[consumer])
}

// givesTheLedgers returns nil if the journal, replayed, gives each ledger exactly.
func (w *World) givesTheLedgers() error {
	for of, stored := range w.model.storedLedgers() {
		entries, err := w.journal.of(of)
		if err == nil {
			err = replayed.Compare(&stored.Spec, entries)
		}
		if err != nil {
			return fmt.Errorf("the journal of %s: %w", of.Name, err)
		}
	}
	return nil
}
