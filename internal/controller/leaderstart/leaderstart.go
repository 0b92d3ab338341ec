// Package leaderstart finds changes from the time without a leader. It runs once on each new leader. Only the operator
// and tests import it.
package leaderstart

import (
	"context"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Buckets publish ledgers.
type Buckets interface {
	// Follow starts the watches for leaders only. IndexExisting prepares for Compare, and Run publishes until ctx ends.
	Follow(ctx context.Context) error
	IndexExisting(ctx context.Context) error
	Run(ctx context.Context) error
	// Compare publishes a ledger unless its buckets agree with it, and Publish publishes it anyway.
	Compare(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot ledger.Snapshot)
	Publish(consumer quotav1alpha1.ConsumerRef)
	// PublishOthers publishes the consumers with buckets and without a ledger.
	PublishOthers()
}

// Grants remembers the grants in the ledgers.
type Grants interface {
	Add(consumer quotav1alpha1.ConsumerRef, grants []ledger.Grant)
	// Call Complete after the addition of all ledgers.
	Complete()
}

// Consumers receives the consumers to reconcile grants for.
type Consumers chan<- event.TypedGenericEvent[quotav1alpha1.ConsumerRef]

// Starter compares the stored ledgers with the cached grants and buckets. It sends the API server no request about a
// consumer in agreement.
type Starter struct {
	Live      client.Reader
	Buckets   Buckets
	Grants    Grants
	Consumers Consumers
}

// Run takes up the changes, and publishes ledgers until ctx ends.
func (t *Starter) Run(ctx context.Context) error {
	if err := t.Buckets.Follow(ctx); err != nil {
		return err
	}
	if err := t.Buckets.IndexExisting(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // the error of an unfinished list does not say so
		}
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.Buckets.Run(ctx) })
	group.Go(func() error {
		if err := ledgerstore.EachPage(ctx, t.Live, func(ledgers []quotav1alpha1.ConsumerLedger) error { return t.compare(ctx, ledgers) }); err != nil {
			return err
		}
		t.Grants.Complete()
		t.Buckets.PublishOthers()
		return nil
	})
	return group.Wait()
}

// compare compares a batch of ledgers.
func (t *Starter) compare(ctx context.Context, ledgers []quotav1alpha1.ConsumerLedger) error {
	for i := range ledgers {
		consumer := ledgers[i].Spec.ConsumerRef
		if snapshot, err := ledgerstore.SnapshotOf(&ledgers[i].Spec); err != nil {
			t.Buckets.Publish(consumer) // it reports the error
		} else {
			t.Buckets.Compare(ctx, consumer, snapshot)
			t.Grants.Add(consumer, snapshot.Grants)
		}
		// Its last grant may no longer exist.
		select {
		case t.Consumers <- event.TypedGenericEvent[quotav1alpha1.ConsumerRef]{Object: consumer}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
