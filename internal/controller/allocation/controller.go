// Package allocation keeps ResourceQuotaAllocations in line with the cluster: what their projects take, whether
// that is more than the cap, and what is shown of it in the projects.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	caps "github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/worker"
)

const (
	workers = 2
	// settleDelay is how long a change of the cluster waits for others to be settled with.
	settleDelay = 20 * time.Millisecond
	// settleTimeout bounds what is done for one allocation at a time.
	settleTimeout = 15 * time.Second
	// resyncInterval is how often an allocation is settled that nothing is heard of.
	resyncInterval = time.Minute
)

// Ledgers are those of all allocations.
type Ledgers interface {
	Settle(ctx context.Context, name string, ready *allocationstore.Ready, f func(*caps.Books)) error
	View(ctx context.Context, name string, f func(*caps.Books)) error
	Cancel(ctx context.Context, name, id string) error
}

// Members is what there is in the cluster.
type Members interface {
	Selected(selector labels.Selector) []string
	Observe(selector labels.Selector, scopes caps.Scopes, changes []caps.Raise) caps.Observation
}

// Webhooks knows what the API server asks about.
type Webhooks interface {
	// IsAllocationEffective reports whether the API server asks about ResourceQuotas as an allocation needs it that was
	// entered with a revision of the catalog, and Synced whether that is known yet.
	IsAllocationEffective(entered int64) bool
	Synced() bool
}

// Controller follows the cluster. Its fields are set once, before use; call Start, then Run where this replica leads.
type Controller struct {
	Catalog *catalog.Catalog
	Ledgers Ledgers
	Members Members
	// Client reads allocations and projections from a watch, and writes them. Live reads ResourceQuotas from the
	// API server.
	Client   client.Client
	Live     client.Reader
	Webhooks Webhooks
	// PendingTime is how long a raise may be made after it was admitted: the API server's bound for a request
	// (--request-timeout), and [allocationstore.PendingMargin]. It is not more than [allocationstore.PendingMax].
	PendingTime time.Duration
	Events      events.EventRecorder
	Log         logr.Logger

	// queue has the allocations to settle, and showing those to show in their projects.
	queue, projections workqueue.TypedRateLimitingInterface[string]
	writes             *rate.Limiter
	metrics            *metrics

	mu     sync.Mutex
	states map[string]*allocationState // by the name of the allocation
}

// allocationState is what is remembered of an allocation.
type allocationState struct {
	// isExceeded is what was said last of it, where anything was.
	isExceeded *bool
	// capped are the resources that there are metrics of.
	capped []string
	// tried is when each namespace was last to get the default, and why it did not.
	tried map[string]attempt
	// pending is since when this replica has known the raises that are not made yet, by their IDs.
	pending map[string]time.Time
}

// Start makes the controller take notice.
func (c *Controller) Start() {
	c.queue, c.projections = newQueue("allocations"), newQueue("allocation_projections")
	c.writes = rate.NewLimiter(projectionWritesPerSecond, projectionWritesPerSecond)
	c.metrics, c.states = newMetrics(), map[string]*allocationState{}
}

func newQueue(name string) workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
}

// AllocationChanged is to be called after an allocation was changed, or the view that it caps.
func (c *Controller) AllocationChanged(name string) { c.queue.AddAfter(name, settleDelay) }

// MemberChanged is to be called after a namespace, or what its ResourceQuotas give, was changed.
func (c *Controller) MemberChanged(before, after labels.Set) {
	for _, a := range c.Catalog.AllocationsFor(before, after) {
		c.queue.AddAfter(a.Name, settleDelay)
	}
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var list quotav1alpha1.ResourceQuotaAllocationList
	if err := c.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list the allocations: %w", err)
	}
	for i := range list.Items {
		c.queue.Add(list.Items[i].Name)
	}
	failed := func(name string, err error) { c.Log.Error(err, "will try again", "allocation", name) }
	var group sync.WaitGroup
	group.Go(func() { worker.Run(ctx, c.queue, workers, c.settle, failed) })
	group.Go(func() { worker.Run(ctx, c.projections, workers, c.publish, failed) })
	group.Wait()
	return nil
}

// settle brings one allocation in line with the cluster.
func (c *Controller) settle(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	declared := c.Catalog.Allocation(name)
	if declared == nil {
		return c.reportIneffective(ctx, name)
	}
	var settled *quotav1alpha1.ResourceQuotaAllocation
	var pending []caps.Raise
	var isShown bool
	err := c.Ledgers.Settle(ctx, name, c.ready(declared), func(b *caps.Books) {
		settled, pending, isShown = b.Updated(), b.Pending(), b.IsShown()
	})
	if errors.Is(err, allocationstore.ErrGone) {
		return nil // its deletion is on its way here
	}
	if err != nil {
		return err
	}
	c.reportUsage(settled)
	c.projections.AddAfter(name, publishDelay)
	if err := c.createDefaults(ctx, declared, settled); err != nil {
		return err
	}
	if err := c.expire(ctx, name, pending); err != nil {
		return err
	}
	next := resyncInterval
	if len(pending) > 0 || !isShown {
		next = allocationstore.ShowDelay
	}
	c.queue.AddAfter(name, next)
	return nil
}

// ready says whether an allocation is enforced, or nil while that is not known.
func (c *Controller) ready(declared *catalog.Allocation) *allocationstore.Ready {
	ready := &allocationstore.Ready{UID: declared.UID, Generation: declared.Generation}
	switch isEffective, isKnown := c.Webhooks.IsAllocationEffective(declared.Revision), c.Webhooks.Synced(); {
	case !isKnown:
		return nil
	case isEffective:
		ready.Condition = metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonEnforced,
			Message: "ResourceQuotas of the selected namespaces are kept within the cap"}
	default:
		ready.Condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonWebhooksPending,
			Message: "the API server does not ask about all ResourceQuotas that count yet"}
	}
	return ready
}

// of returns what is known of an allocation. It belongs to whoever processes that.
func (c *Controller) stateOf(name string) *allocationState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states[name] == nil {
		c.states[name] = &allocationState{}
	}
	return c.states[name]
}

// reportIneffective forgets an allocation that is gone, and says of one that is not what keeps it from being used.
func (c *Controller) reportIneffective(ctx context.Context, name string) error {
	c.metrics.forget(name, c.stateOf(name).capped)
	c.metrics.unlimited.DeleteLabelValues(name)
	c.mu.Lock()
	delete(c.states, name)
	c.mu.Unlock()
	object := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	return c.reportInvalid(ctx, object)
}
