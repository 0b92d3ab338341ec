// Package allocation reconciles ResourceQuotaAllocations with the cluster: the usage of their member namespaces,
// whether it exceeds the cap, and the projections of the allocation in the member namespaces. Only the operator and
// tests import it.
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
	// settleDelay is how long a change waits for further changes.
	settleDelay = 20 * time.Millisecond
	// settleTimeout bounds the work on one allocation.
	settleTimeout = 15 * time.Second
	// resyncInterval is the time between two reconciles of an allocation without a change.
	resyncInterval = time.Minute
)

// Ledgers are the ledgers of all allocations.
type Ledgers interface {
	Reconcile(ctx context.Context, name string, ready *allocationstore.Ready, f func(*caps.State)) error
	View(ctx context.Context, name string, f func(*caps.State)) error
	Cancel(ctx context.Context, name, id string) error
}

// Members reads the member namespaces of an allocation from the cluster.
type Members interface {
	Selected(selector labels.Selector) []string
	Observe(selector labels.Selector, scopes caps.Scopes, changes []caps.QuotaChange) caps.Observation
}

// Webhooks reports the requests the API server sends to the webhooks.
type Webhooks interface {
	// IsAllocationEffective reports whether the API server sends the ResourceQuotas of an allocation entered at a
	// revision of the catalog. Synced reports whether the answer is known yet.
	IsAllocationEffective(entered int64) bool
	Synced() bool
}

// Controller reconciles allocations. Set its fields once, before use; call Start, then Run on the leader.
type Controller struct {
	Catalog *catalog.Catalog
	Ledgers Ledgers
	Members Members
	// Client reads allocations and projections from a watch, and writes them. Live reads ResourceQuotas from the API
	// server.
	Client   client.Client
	Live     client.Reader
	Webhooks Webhooks
	// PendingTime is how long after its admission a quota change may still reach storage: the API server's request
	// timeout (--request-timeout) plus [allocationstore.PendingMargin]. It is at most [allocationstore.PendingMax].
	PendingTime time.Duration
	Events      events.EventRecorder
	Log         logr.Logger

	// queue holds the allocations to settle, and projections the allocations to publish in their member namespaces.
	queue, projections workqueue.TypedRateLimitingInterface[string]
	writes             *rate.Limiter
	metrics            *metrics

	mu     sync.Mutex
	states map[string]*allocationState // by the name of the allocation
}

// allocationState is the controller's memory of an allocation.
type allocationState struct {
	// isExceeded is the last reported state, or nil before the first report.
	isExceeded *bool
	// reportedGeneration is the generation of the allocation in the last report.
	reportedGeneration int64
	// capped are the resources with metrics.
	capped []string
	// tried is the last attempt to create the default in each namespace.
	tried map[string]attempt
	// pending is when this replica first saw each pending quota change, by ID.
	pending map[string]time.Time
}

// Start makes the queues. From then on they take changes.
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

// AllocationChanged queues an allocation. Call it after a change of the allocation or of the view under its cap.
func (c *Controller) AllocationChanged(name string) { c.queue.AddAfter(name, settleDelay) }

// MemberChanged queues the allocations of a namespace. Call it after a change of the namespace or of its
// ResourceQuotas.
func (c *Controller) MemberChanged(before, after labels.Set) {
	for _, a := range c.Catalog.AllocationsFor(before, after) {
		c.queue.AddAfter(a.Name, settleDelay)
	}
}

// Run reconciles allocations until ctx ends.
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

// settle reconciles one allocation with the cluster.
func (c *Controller) settle(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	declared := c.Catalog.Allocation(name)
	if declared == nil {
		return c.reportIneffective(ctx, name)
	}
	var settled *quotav1alpha1.ResourceQuotaAllocation
	var pending []caps.QuotaChange
	var isShown bool
	err := c.Ledgers.Reconcile(ctx, name, c.ready(declared), func(b *caps.State) {
		settled, pending, isShown = b.ObjectToStore(), b.Pending(), b.IsStatusCurrent()
	})
	if errors.Is(err, allocationstore.ErrGone) {
		return nil // an event follows its deletion
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
		next = allocationstore.StatusDelay
	}
	c.queue.AddAfter(name, next)
	return nil
}

// ready returns whether the webhook enforces an allocation, or nil while it is unknown.
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
			Message: "the API server does not send all counted ResourceQuotas to the webhook yet"}
	}
	return ready
}

// stateOf returns the state of an allocation. It belongs to the allocation's worker.
func (c *Controller) stateOf(name string) *allocationState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states[name] == nil {
		c.states[name] = &allocationState{}
	}
	return c.states[name]
}

// reportIneffective forgets a deleted allocation, and reports why another one is not effective.
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
