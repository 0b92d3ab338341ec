package operator

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// load waits for the declared state, starts what every replica does and, if it leads, what one of them
// does alone, and then says that quota is enforced.
func (p *parts) load(ctx context.Context, group *errgroup.Group, o *Operator) error {
	if !cache.WaitForCacheSync(ctx.Done(), p.synced...) {
		return ctx.Err()
	}
	close(p.loaded)
	if err := p.warm(ctx); err != nil {
		return err
	}
	if err := webhookconfig.FollowPaths(ctx, o.client, p.server.Gate.Observe); err != nil {
		return err
	}
	group.Go(func() error { return p.lifecycle.Run(ctx) })
	group.Go(func() error { return p.claim.Run(ctx) })
	group.Go(func() error { return p.denials.Run(ctx) })
	group.Go(func() error { return p.follower.Run(ctx) })
	group.Go(func() error { return p.observer.Run(ctx) })
	group.Go(func() error { p.projects.Run(ctx); return nil })
	group.Go(func() error { p.claims.Run(ctx, p.client.REST()); return nil })
	group.Go(func() error { return p.lead(ctx, group) })
	if p.peers != nil {
		if err := p.peers.Follow(ctx); err != nil {
			return err
		}
		group.Go(func() error { return p.join(ctx, o) })
	}
	if p.probeObserver != nil {
		group.Go(func() error { return p.probeObserver.Run(ctx) })
	}
	o.notReady("the certificate of the webhooks is awaited")
	const poll = 5 * time.Millisecond
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		if o.isStopping.Load() {
			return true, nil
		}
		// Where several replicas are for one API server it asks those that are ready, so that they cannot wait
		// for it. With an API server for each, each waits for its own.
		switch err := p.server.Certificates.Ready(); {
		case err != nil:
			o.notReady(err.Error())
		case o.options.LeaderElection != nil && !p.server.IsPublished(ctx):
			o.notReady("the authority of the certificate is not published yet, which the leader does")
		case o.options.LeaderElection == nil && !p.webhooks.Synced(), p.probeObserver != nil && !p.probeObserver.Synced():
			o.notReady("the API server has not observed the webhooks yet")
		default:
			o.problem.Store(nil)
			return true, nil
		}
		return false, nil
	})
}

// join has other replicas send reviews here, once they can be answered and until the operator is to stop. Before this
// replica has listed the claims, it can settle nothing but what it makes itself, so the ledgers stay with the others.
func (p *parts) join(ctx context.Context, o *Operator) error {
	const poll = 5 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		return o.Ready() == nil && p.claims.HasSynced() || o.isStopping.Load(), nil
	})
	if err != nil {
		return nil // ctx has ended
	}
	p.peers.Show(o.stopping, ctx)
	return nil
}

// lead runs what one replica does for all, once this is the one, and has a certificate to publish where that matters.
func (p *parts) lead(ctx context.Context, group *errgroup.Group) error {
	select {
	case <-p.manager.Elected():
	case <-ctx.Done():
		return nil
	}
	p.log.Info("this replica leads")
	group.Go(func() error { return p.takeUp(ctx, group) })
	const poll = 5 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) { return p.server.Certificates.Ready() == nil, nil })
	if err != nil {
		return nil // ctx has ended
	}
	for _, run := range []func(context.Context) error{
		p.webhooks.Run, p.adoption.Run, p.auditor.Run, p.departed.Run, p.grants.Run, p.allocation.Run, p.notifier.Run,
	} {
		group.Go(func() error { return run(ctx) })
	}
	return nil
}

// takeUp finds what changed while nobody led: it compares the stored ledgers with the grants and the buckets in memory. Where
// they agree, it sends the API server no request about the consumer.
func (p *parts) takeUp(ctx context.Context, group *errgroup.Group) error {
	if err := p.bucket.TakeUp(ctx); err != nil {
		return err
	}
	group.Go(func() error { return p.bucket.Run(ctx) })
	err := p.eachPage(ctx, func(ledgers []quotav1alpha1.ConsumerLedger) error {
		for i := range ledgers {
			consumer := ledgers[i].Spec.ConsumerRef
			if books, err := ledgerstore.SnapshotOf(&ledgers[i].Spec); err != nil {
				p.bucket.Show(consumer) // which reports it
			} else {
				p.bucket.Compare(ctx, consumer, books)
				p.storedGrants.Add(consumer, books.Grants)
			}
			// Its last grant may have gone.
			select {
			case p.consumers <- event.TypedGenericEvent[quotav1alpha1.ConsumerRef]{Object: consumer}:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.storedGrants.Complete()
	p.bucket.ShowOthers()
	return nil
}

// warm takes up the unfinished business of the stored ledgers.
func (p *parts) warm(ctx context.Context) error {
	return p.eachPage(ctx, func(ledgers []quotav1alpha1.ConsumerLedger) error {
		// A ledger that cannot be read keeps its consumer from creating, and nobody else.
		if err := p.store.Preload(ctx, ledgers); err != nil {
			p.log.Error(err, "some ledgers cannot be read")
		}
		return nil
	})
}

// eachPage calls f with all stored ledgers, page by page.
func (p *parts) eachPage(ctx context.Context, f func([]quotav1alpha1.ConsumerLedger) error) error {
	const pageSize = 500
	for next := ""; ; {
		var page quotav1alpha1.ConsumerLedgerList // decoding keeps old values where an answer has none
		err := p.manager.GetAPIReader().List(ctx, &page, client.Limit(pageSize), client.Continue(next))
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the ledgers: %w", err)
		}
		if err := f(page.Items); err != nil || page.Continue == "" {
			return err
		}
		next = page.Continue
	}
}
