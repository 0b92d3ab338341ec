// Package claim decides claims that were created directly and releases claims that are being
// deleted, whoever made them.
//
// A claim created directly is reserved under its own UID, marked as granted and settled. One
// that does not fit waits: whenever capacity of its consumer appears, all that wait are decided
// again, the oldest first; a smaller one may pass a larger one that still does not fit. A granted
// claim that is to hold something else is amended once there is room, goes on holding what it holds
// until then, and waits in line with the others.
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
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/worker"
)

const (
	// claimWorkers and consumerWorkers are how many claims, and how many consumers' waiting
	// claims, are worked on at a time.
	claimWorkers    = 24
	consumerWorkers = 4
	// sweepInterval is how often claims and reservations that were left half done by a process
	// that died are looked for, and sweepAge how old a reservation must be for that.
	sweepInterval = 10 * time.Second
	sweepAge      = 5 * time.Second
)

// Controller is the claim controller. Its fields are set once; call Start before the caches
// run, then Run.
type Controller struct {
	Store   *ledgerstore.Store
	Claims  *claimcache.Cache
	Client  *claims.Client
	Catalog *catalog.Catalog
	// InUse asks the API server whether a policy's claim still pays for an object.
	InUse func(context.Context, *quotav1alpha1.ResourceClaim) (bool, error)
	// Keeps tells for which consumers this replica decides and releases claims at once.
	Keeps worker.Keeps
	Log   logr.Logger

	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	retries workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]

	mu      sync.Mutex
	waiting map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]struct{}
	busy    map[types.NamespacedName]struct{} // claims that are being decided or released
}

// Start registers the controller with what it follows.
func (c *Controller) Start() {
	c.waiting = map[quotav1alpha1.ConsumerRef]map[types.NamespacedName]struct{}{}
	c.busy = map[types.NamespacedName]struct{}{}
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, 10*time.Second))
	c.retries = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](20*time.Millisecond, 10*time.Second))
	c.Claims.OnChange(c.changed)
	c.Store.Subscribe(c.ledgerChanged)
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { c.sweepRegularly(ctx) })
	group.Go(func() {
		worker.Run(ctx, c.queue, claimWorkers, c.reconcile, func(claim types.NamespacedName, err error) {
			c.Log.Error(err, "will try again", "claim", claim.String())
		})
	})
	group.Go(func() {
		worker.Run(ctx, c.retries, consumerWorkers, c.retryWaiting, func(consumer quotav1alpha1.ConsumerRef, err error) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		})
	})
	group.Wait()
	return nil
}

// changed looks at what happened to a claim.
func (c *Controller) changed(before, after *claimcache.Claim) {
	c.track(before, after)
	switch {
	case after == nil:
		// The others would write the same, all at once. Should the keeper miss it, it sweeps.
		if c.Keeps.Of(before.Consumer()) {
			c.Store.Forget(before.Consumer(), string(before.UID))
		}
		c.Store.ReleaseDone(before.Consumer(), string(before.UID))
	case after.Deleting && after.Finalizer:
		c.Store.ExpectRelease(after.Consumer(), string(after.UID))
		worker.Share(c.queue, c.Keeps.For(after.Consumer()), after.NamespacedName)
	case !after.Deleting && !after.FromPolicy() && (after.Resizing && (before == nil || !after.AsksSame(before)) || c.isDecidable(after)):
		worker.Share(c.queue, c.Keeps.For(after.Consumer()), after.NamespacedName)
	}
}

// isDecidable tells whether a claim needs a decision that can be had: it is new, or the
// registrations that it lacked have come, maybe while nobody looked.
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

// track keeps the set of the claims of each consumer that wait for capacity.
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
			// Capacity may have appeared between the denial and the moment it was seen here.
			worker.Share(c.retries, c.Keeps.For(consumer), consumer)
		}
	}
}

func isWaiting(claim *claimcache.Claim) bool {
	return claim != nil && !claim.Deleting && !claim.FromPolicy() && (claim.State == claimcache.Waiting || claim.IsToHoldElse())
}

func (c *Controller) ledgerChanged(consumer quotav1alpha1.ConsumerRef, change ledgerstore.Change) {
	if !change.CapacityGrew {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting[consumer]) > 0 {
		worker.Share(c.retries, c.Keeps.For(consumer), consumer)
	}
}

// RegistrationsChanged looks again at the claims that could not be decided.
func (c *Controller) RegistrationsChanged() {
	for _, claim := range c.Claims.Select(func(claim *claimcache.Claim) bool {
		return (claim.State == claimcache.Invalid || claim.Resizing) && !claim.Deleting && !claim.FromPolicy()
	}) {
		worker.Share(c.queue, c.Keeps.For(claim.Consumer()), claim.NamespacedName)
	}
}

// sweepRegularly finishes what a process that died left half done.
func (c *Controller) sweepRegularly(ctx context.Context) {
	if c.Claims.WaitForSync(ctx) != nil {
		return
	}
	for _, consumer := range c.consumersWaiting() {
		worker.Share(c.retries, c.Keeps.For(consumer), consumer)
	}
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		c.sweep(ctx)
		c.sweepReleased(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
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
