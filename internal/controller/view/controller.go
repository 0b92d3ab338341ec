// Package view writes the ResourceClaims of objects that count themselves. Such a claim is a view: it shows what its
// object demands by a policy, for people and tools that look at claims, and nothing depends on it.
//
// The leader writes views in the background, with few workers, so that they never delay a create. It compares what
// exists with the views that exist, and mends every difference: it makes a missing view, changes or replaces one that
// shows another demand, and deletes one whose object or policy is gone. The owner reference of a view lets the API
// server delete it together with its object where their namespaces allow that.
//
// Only the operator and tests import it.
package view

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/secrets"
	"github.com/bursar/bursar/internal/kube/worker"
)

const (
	// workers is the number of views that are written at the same time.
	workers = 4
	// retryMin and retryMax bound the delay before the next attempt for an object.
	retryMin, retryMax = 20 * time.Millisecond, 30 * time.Second
	// compareDelay gathers the reasons to compare a whole kind, and compareInterval is the longest time without one.
	compareDelay, compareInterval = time.Second, time.Minute
)

// Controller writes views during one term as the leader. Set its fields once, call Start, and then Run.
type Controller struct {
	Inventory *inventory.Inventory
	Catalog   *catalog.Catalog
	Evaluator *evaluator.Evaluator
	// Views are the views that exist. Run fills the cache.
	Views  *claimcache.Cache
	Client *claims.Client
	// Kinds and Live read the objects whose views are to be made, and Secrets those that are Secrets.
	Kinds           discoverycache.Resolver
	Live            dynamic.Interface
	Secrets         *secrets.Client
	SystemNamespace string
	// Events tells of namespaces that refuse views.
	Events events.EventRecorder
	Log    logr.Logger

	objects  workqueue.TypedRateLimitingInterface[object]
	kinds    workqueue.TypedRateLimitingInterface[schema.GroupKind]
	refusals claims.Refusals
}

// object identifies an object whose views may have to change.
type object struct {
	kind schema.GroupKind
	uid  types.UID
}

// Start makes the queues. From then on, they take what has changed.
func (c *Controller) Start() {
	c.objects = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[object](retryMin, retryMax))
	c.kinds = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[schema.GroupKind](retryMin, retryMax))
	c.Views.OnChange(c.viewChanged)
}

// ObjectChanged is called after the demand of an object has changed, or the object is gone.
func (c *Controller) ObjectChanged(kind schema.GroupKind, uid types.UID) {
	if c.Views.HasSynced() { // before, the comparison of all kinds is still to come
		c.objects.Add(object{kind, uid})
	}
}

// KindChanged is called after the demand of any object of a kind may have changed.
func (c *Controller) KindChanged(kind schema.GroupKind) { c.kinds.AddAfter(kind, compareDelay) }

// viewChanged looks after a view that has appeared, changed or disappeared.
func (c *Controller) viewChanged(before, after *claimcache.Claim) {
	changed := after
	if after == nil {
		changed = before
	}
	c.ObjectChanged(changed.Kind(), changed.ObjectUID)
}

// Run writes views until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.objects.ShutDown()
	defer c.kinds.ShutDown() // a term may end before there is a list of views
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { c.Views.Run(ctx, c.Client.REST()) })
	if c.Views.WaitForSync(ctx) != nil {
		return nil // ctx has ended
	}

	group.Go(func() { c.compareRegularly(ctx) })
	group.Go(func() {
		worker.Run(ctx, c.kinds, 1, c.compareKind, func(kind schema.GroupKind, err error) {
			c.Log.Error(err, "cannot compare views with objects, will try again", "kind", kind.String())
		})
	})
	worker.Run(ctx, c.objects, workers, c.syncObject, func(o object, err error) {
		c.Log.V(1).Info("cannot write a view, will try again", "kind", o.kind.String(), "uid", o.uid, "err", err.Error())
	})
	return nil
}

// compareRegularly compares all kinds, at the beginning and every now and then.
func (c *Controller) compareRegularly(ctx context.Context) {
	ticker := time.NewTicker(compareInterval)
	defer ticker.Stop()
	for {
		for _, kind := range c.comparedKinds() {
			c.kinds.Add(kind)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// comparedKinds returns the kinds that have views, or are to have some.
func (c *Controller) comparedKinds() []schema.GroupKind {
	all := map[schema.GroupKind]bool{}
	kinds := c.Views.Kinds()
	for _, counted := range c.Catalog.CountedKinds() {
		kinds = append(kinds, counted.GroupKind())
	}
	unique := kinds[:0]
	for _, kind := range kinds {
		if !all[kind] {
			all[kind] = true
			unique = append(unique, kind)
		}
	}
	return unique
}
