// Package claim decides claims created directly by users, and releases deleted claims of any origin.
//
// The controller reserves the charges of a claim created directly, and marks it as granted. A claim without room waits.
// When its consumer gets capacity, the controller decides all waiting claims again, the oldest first; a smaller claim
// may pass a larger one still without room. It resizes a granted claim once there is room. Until then the claim keeps
// its charges and waits in line with the others.
//
// Releases have a queue and workers of their own, and a decision never holds a worker while it waits for a release. If
// a claim does not fit during a release, the controller postpones it, and decides it again with the waiting claims.
// Both queues serve consumers in turn. So one consumer's load delays neither its own releases nor another consumer.
//
// Only the operator and tests import it.
package claim

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// decisionWorkers and releaseWorkers are the numbers of concurrent decisions and releases of claims.
	// consumerWorkers is the number of consumers with concurrent decisions on their waiting claims.
	decisionWorkers = 24
	releaseWorkers  = 24
	consumerWorkers = 4
	// retryMin and retryMax bound the delay before the next attempt for a failed claim.
	retryMin = 5 * time.Millisecond
	retryMax = 10 * time.Second
)

// Controller is the claim controller. Set its fields once; call Start before the caches run, then Run.
type Controller struct {
	Store   *ledgerstore.Store
	Engine  *engine.Engine
	Claims  *claimcache.Cache
	Client  *claims.Client
	Catalog *catalog.Catalog
	// Replicas share the work. Each replica decides and releases at once the claims of the consumers that
	// prefer it.
	Replicas routing.Replicas
	Log      logr.Logger

	decisions workqueue.TypedRateLimitingInterface[task]
	releases  workqueue.TypedRateLimitingInterface[task]
	retries   workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]

	mu      sync.Mutex
	waiting map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]struct{}
	// postponed are the claims without room during a release, each with the time of its denial if it still does not
	// fit.
	postponed map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]time.Time
	busy      map[types.NamespacedName]struct{} // claims with a decision or release in progress
}

// task is a queued claim and its consumer.
type task struct {
	types.NamespacedName
	consumer quotav1alpha1.ConsumerRef
}

func taskOf(claim *claimcache.Claim) task { return task{claim.NamespacedName, claim.Consumer()} }

// Start registers the controller's handlers.
func (c *Controller) Start() {
	c.waiting = map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]struct{}{}
	c.postponed = map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]time.Time{}
	c.busy = map[types.NamespacedName]struct{}{}
	consumerOf := func(t task) quotav1alpha1.ConsumerRef { return t.consumer }
	c.decisions = worker.NewFairQueue(consumerOf, retryMin, retryMax)
	c.releases = worker.NewFairQueue(consumerOf, retryMin, retryMax)
	c.retries = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](20*time.Millisecond, 10*time.Second))
	c.Claims.OnChange(c.changed)
	c.Store.Subscribe(c.ledgerChanged)
}

// Run decides and releases claims until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { c.retryAll(ctx) })
	group.Go(func() { c.completeAll(ctx) })
	for queue, workers := range map[workqueue.TypedRateLimitingInterface[task]]int{c.decisions: decisionWorkers, c.releases: releaseWorkers} {
		group.Go(func() {
			worker.Run(ctx, queue, workers, c.reconcile, func(claim task, err error) {
				c.Log.Error(err, "will try again", "claim", claim.String())
			})
		})
	}
	group.Go(func() {
		worker.Run(ctx, c.retries, consumerWorkers, c.retryWaiting, func(consumer quotav1alpha1.ConsumerRef, err error) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		})
	})
	group.Wait()
	return nil
}

// changed queues the work for a changed claim.
func (c *Controller) changed(before, after *claimcache.Claim) {
	c.track(before, after)
	switch {
	case after == nil:
		c.Store.ReleaseDone(before.Consumer(), string(before.UID))
	case after.Deleting && after.Finalizer:
		if c.Engine.Objects.Presence(after.Kind(), after.ObjectUID) == objectcache.Present {
			c.Store.ExpectDeletion(after.Consumer(), string(after.UID)) // the claim stays until its object goes
		} else {
			c.Store.ExpectRelease(after.Consumer(), string(after.UID))
		}
		routing.Enqueue(c.releases, routing.PreferredFor(c.Replicas, after.Consumer()), taskOf(after))
	case !after.Deleting && !after.FromPolicy() && (after.Resizing && (before == nil || !after.SameResize(before)) || c.isDecidable(after)):
		routing.Enqueue(c.decisions, routing.PreferredFor(c.Replicas, after.Consumer()), taskOf(after))
	}
}

// isDecidable reports whether the controller can decide a claim now: it is new, or its registrations have appeared,
// maybe without an event.
func (c *Controller) isDecidable(claim *claimcache.Claim) bool {
	switch claim.State {
	case claimcache.Pending:
		return true
	case claimcache.Invalid:
		spec := claim.Spec()
		return c.Catalog.CheckClaim(&spec) == nil
	default:
		return false
	}
}

// track updates the set of waiting claims of each consumer.
func (c *Controller) track(before, after *claimcache.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isWaiting(before) {
		consumer := before.Consumer()
		delete(c.waiting[consumer], before.NamespacedName)
		if len(c.waiting[consumer]) == 0 {
			delete(c.waiting, consumer)
		}
	}
	if isWaiting(after) {
		consumer := after.Consumer()
		if c.waiting[consumer] == nil {
			c.waiting[consumer] = map[types.NamespacedName]struct{}{}
		}
		c.waiting[consumer][after.NamespacedName] = struct{}{}
		if !isWaiting(before) {
			// Capacity may have appeared between the denial and this event.
			routing.Enqueue(c.retries, routing.PreferredFor(c.Replicas, consumer), consumer)
		}
	}
}

func isWaiting(claim *claimcache.Claim) bool {
	return claim != nil && !claim.Deleting && !claim.FromPolicy() && (claim.State == claimcache.Waiting || claim.HasResize())
}

func (c *Controller) ledgerChanged(consumer quotav1alpha1.ConsumerRef, change ledgerstore.Change) {
	if !change.CapacityGrew {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting[consumer]) > 0 || len(c.postponed[consumer]) > 0 {
		routing.Enqueue(c.retries, routing.PreferredFor(c.Replicas, consumer), consumer)
	}
}

// RegistrationsChanged queues the directly created claims that are invalid or wait for a resize: now a decision may be
// possible.
func (c *Controller) RegistrationsChanged() {
	for _, claim := range c.Claims.Select(func(claim *claimcache.Claim) bool {
		return (claim.State == claimcache.Invalid || claim.Resizing) && !claim.Deleting && !claim.FromPolicy()
	}) {
		routing.Enqueue(c.decisions, routing.PreferredFor(c.Replicas, claim.Consumer()), taskOf(claim))
	}
}

// retryAll decides the waiting claims again once all claims are known.
func (c *Controller) retryAll(ctx context.Context) {
	if c.Claims.WaitForSync(ctx) != nil {
		return
	}
	for _, consumer := range c.consumersWaiting() {
		routing.Enqueue(c.retries, routing.PreferredFor(c.Replicas, consumer), consumer)
	}
}

func (c *Controller) consumersWaiting() []quotav1alpha1.ConsumerRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	consumers := make([]quotav1alpha1.ConsumerRef, 0, len(c.waiting))
	for consumer := range c.waiting {
		consumers = append(consumers, consumer)
	}
	return consumers
}
