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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	books "github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocationstore"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/worker"
)

const (
	workers = 2
	// settleDelay is how long a change of the cluster waits for others to be settled with.
	settleDelay = 20 * time.Millisecond
	// pendingInterval is how often an allocation is looked at with raises that are pending, and resyncInterval
	// how often one is that nothing is heard of.
	pendingInterval = time.Second
	resyncInterval  = time.Minute
)

// Books are those of all allocations.
type Books interface {
	Settle(ctx context.Context, name string, ready metav1.Condition, f func(*books.Books)) error
	Cancel(ctx context.Context, name, id string) error
	Forget(name string)
}

// Projects is what there is in the cluster.
type Projects interface {
	Selected(selector labels.Selector) []string
}

// Controller follows the cluster. Its fields are set once, before use; call Start, then Run where this replica leads.
type Controller struct {
	Catalog  *catalog.Catalog
	Books    Books
	Projects Projects
	// Client reads allocations and projections from a watch, and writes them. Live reads ResourceQuotas from the
	// API server.
	Client client.Client
	Live   client.Reader
	// InEffect tells whether the API server asks about ResourceQuotas as an allocation needs it that was entered
	// with a revision of the catalog.
	InEffect func(entered int64) bool
	Events   events.EventRecorder
	Log      logr.Logger

	queue   workqueue.TypedRateLimitingInterface[string]
	metrics *metrics

	mu    sync.Mutex
	known map[string]*known // by the name of the allocation
}

// known is what is remembered of an allocation.
type known struct {
	// isExceeded is what was said last of it, where anything was.
	isExceeded *bool
	// showAt is when it may next be shown in its projects.
	showAt time.Time
	// capped are the resources that there are metrics of.
	capped []string
}

// Start makes the controller take notice.
func (c *Controller) Start() {
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "allocations"})
	c.metrics, c.known = newMetrics(), map[string]*known{}
}

// AllocationChanged is to be called after an allocation was changed, or the view that it caps.
func (c *Controller) AllocationChanged(name string) { c.queue.AddAfter(name, settleDelay) }

// ProjectChanged is to be called after a namespace, or what its ResourceQuotas give, was changed.
func (c *Controller) ProjectChanged(before, after labels.Set) {
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
	worker.Run(ctx, c.queue, workers, c.process, func(name string, err error) {
		c.Log.Error(err, "will try again", "allocation", name)
	})
	return nil
}

// process brings one allocation in line.
func (c *Controller) process(ctx context.Context, name string) error {
	declared := c.Catalog.Allocation(name)
	if declared == nil {
		return c.notUsable(ctx, name)
	}
	isDue := c.isDue(name)
	var look look
	err := c.Books.Settle(ctx, name, c.ready(declared), func(b *books.Books) { look = c.look(b, isDue) })
	if errors.Is(err, allocationstore.ErrGone) {
		return nil // its deletion is on its way here
	}
	if err != nil {
		return err
	}
	c.tell(look)
	if isDue {
		began := time.Now()
		if err := c.show(ctx, look); err != nil {
			return err
		}
		c.shown(name, time.Since(began))
	}
	if err := c.expire(ctx, look); err != nil {
		return err
	}
	c.queue.AddAfter(name, c.next(name, look, isDue))
	return nil
}

// ready is the condition that says whether an allocation is enforced.
func (c *Controller) ready(declared *catalog.Allocation) metav1.Condition {
	if c.InEffect(declared.Entered) {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonEnforced,
			Message: "ResourceQuotas of the selected namespaces are kept within the cap"}
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonWebhooksPending,
		Message: "the API server does not ask about all ResourceQuotas that count yet"}
}

// look is an allocation as it was settled.
type look struct {
	object  *quotav1alpha1.ResourceQuotaAllocation
	pending []books.Raise
	// local is what is to be shown in each project, if it is due.
	local map[string]quotav1alpha1.LocalResourceQuotaAllocationStatus
}

// look takes from books what is needed of them. They change later.
func (c *Controller) look(b *books.Books, isDue bool) look {
	l := look{object: b.Updated(), pending: append([]books.Raise(nil), b.Pending()...)}
	if isDue {
		l.local = map[string]quotav1alpha1.LocalResourceQuotaAllocationStatus{}
		for _, project := range c.Projects.Selected(b.Selector()) {
			l.local[project] = b.Local(project)
		}
	}
	return l
}

// next is when an allocation is to be looked at again if nothing is heard of it.
func (c *Controller) next(name string, l look, wasDue bool) time.Duration {
	next := resyncInterval
	if len(l.pending) > 0 {
		next = pendingInterval
	}
	if !wasDue {
		next = min(next, time.Until(c.of(name).showAt))
	}
	return next
}

// of returns what is known of an allocation. It belongs to whoever processes that.
func (c *Controller) of(name string) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[name] == nil {
		c.known[name] = &known{}
	}
	return c.known[name]
}

// notUsable forgets an allocation that is gone, and says of one that is not what keeps it from being used.
func (c *Controller) notUsable(ctx context.Context, name string) error {
	c.metrics.forget(name, c.of(name).capped)
	c.mu.Lock()
	delete(c.known, name)
	c.mu.Unlock()
	c.Books.Forget(name)
	object := &quotav1alpha1.ResourceQuotaAllocation{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	return c.invalid(ctx, object)
}
