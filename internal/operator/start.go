package operator

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// load waits for the declared state, starts the work of every replica and the election of the leader, and then reports
// that quota is enforced.
func (p *components) load(ctx context.Context, group *errgroup.Group, o *Operator) error {
	log := o.options.Log.WithName("operator")
	if !cache.WaitForCacheSync(ctx.Done(), p.synced...) {
		return ctx.Err()
	}
	close(p.loaded)
	if err := p.preload(ctx, log); err != nil {
		return err
	}
	if err := webhookconfig.FollowPaths(ctx, o.client, p.server.Authenticator.Observe); err != nil {
		return err
	}
	for _, component := range p.everywhere {
		group.Go(func() error { return component.Run(ctx) })
	}
	if o.options.ResourceQuotas.ServesAllocations() {
		group.Go(func() error { p.quota.members.Run(ctx); return nil })
	}
	group.Go(func() error { return p.leading.Run(ctx) })
	if p.peers != nil {
		if err := p.peers.Follow(ctx); err != nil {
			return err
		}
		group.Go(func() error { return p.join(ctx, o) })
	}
	if p.probeObserver != nil {
		group.Go(func() error { return p.probeObserver.Run(ctx) })
	}
	return p.waitForEnforcement(ctx, o)
}

// waitForEnforcement waits until Bursar enforces quota, and reports it. Until then Ready returns the missing step.
func (p *components) waitForEnforcement(ctx context.Context, o *Operator) error {
	o.notReady("the webhooks have no certificate yet")
	const poll = 5 * time.Millisecond
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		if o.isStopping.Load() {
			return true, nil
		}
		// Replicas of one API server get requests only when ready, so they cannot wait for them. With an API server for
		// each, each waits for its own.
		switch err := p.server.Certificates.Ready(); {
		case err != nil:
			o.notReady(err.Error())
		case o.options.LeaderElection != nil && !p.server.IsPublished(ctx):
			o.notReady("the leader has not published the authority of the certificate yet")
		case o.options.LeaderElection == nil && !p.leading.webhooksObserved(), p.probeObserver != nil && !p.probeObserver.Synced():
			o.notReady("the API server has not observed the webhooks yet")
		default:
			o.problem.Store(nil)
			return true, nil
		}
		return false, nil
	})
}

// listMax is how long a replica waits for its lists before it joins the others without them.
const listMax = 5 * time.Minute

// join accepts reviews from other replicas, from the first time that this replica can answer until the operator has to
// stop. Before it has listed claims and objects, this replica can end no request that awaits one. A busy consumer would
// soon have as many requests in flight as its ledger takes, so others stay preferred, if there are any.
func (p *components) join(ctx context.Context, o *Operator) error {
	const poll = 20 * time.Millisecond
	began := time.Now()
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		if o.isStopping.Load() || o.Ready() != nil {
			return o.isStopping.Load(), nil
		}
		uncounted := p.quota.watcher.Uncounted()
		isListed := p.quota.claims.HasSynced() && len(uncounted) == 0
		if !isListed && time.Since(began) > listMax {
			o.options.Log.Info("this replica joins the others, although it has not listed all objects that count", "kinds", uncounted)
			return true, nil
		}
		return isListed || p.peers.IsAlone(), nil
	})
	if err != nil {
		return nil // ctx has ended
	}
	p.peers.Advertise(o.stopping, ctx)
	return nil
}

// preload loads the unfinished reservations of the stored ledgers.
func (p *components) preload(ctx context.Context, log logr.Logger) error {
	return ledgerstore.EachPage(ctx, p.cluster.live, func(ledgers []quotav1alpha1.ConsumerLedger) error {
		// An unreadable ledger blocks the creates of its own consumer only.
		if err := p.quota.ledgers.Preload(ctx, ledgers); err != nil {
			log.Error(err, "some ledgers cannot be read")
		}
		return nil
	})
}
