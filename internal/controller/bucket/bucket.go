// Package bucket shows the books: for every consumer and resource type an EffectiveResourceGrant,
// which owns an AllowanceBucket of the whole and one for each dimension set in use, all with the
// limit, what is allocated and what is available. They are a view. Nothing is decided on them, and
// changes that come quickly are shown together.
//
// The unit of work is a consumer. Its books are read at one instant, and whatever says something
// else is written. What exists and is right costs no write, so the writes are as many as the
// buckets that changed.
package bucket

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// firstDelay is how long the first change after a quiet time waits for more, and interval how
	// long further ones do.
	firstDelay = 50 * time.Millisecond
	interval   = 500 * time.Millisecond
	workers    = 4
	// consumersPerSecond is how many consumers are shown a second, after a burst, whose books change: the more of
	// them change at a time, the later each is shown, and the API server has room for what is decided.
	consumersPerSecond = 50
	consumersBurst     = 200
)

// Ledgers is where the books are read.
type Ledgers interface {
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Controller keeps what is shown. Its fields are set once; call Start, then Run.
type Controller struct {
	Client  client.Client
	Ledgers Ledgers
	Catalog *catalog.Catalog
	// SystemNamespace is where the quota is shown of consumers that have no namespace; Namespaces
	// gives the namespace of consumers of a kind, with {{name}} standing for the consumer's name.
	SystemNamespace string
	Namespaces      map[schema.GroupKind]string
	// Events receives which consumers have no namespace to show their quota in.
	Events events.EventRecorder
	Log    logr.Logger

	*state
}

// state is what a controller remembers.
type state struct {
	queue   workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]
	index   bucketIndex
	stale   staleObjects
	waiters namespaceWaiters
	pace    flowcontrol.RateLimiter
	// leads is set by TakeUp.
	leads     atomic.Bool
	mu        sync.Mutex
	published map[quotav1alpha1.ConsumerRef]time.Time
}

// Start prepares the controller for changes.
func (c *Controller) Start() {
	c.state = &state{
		published: map[quotav1alpha1.ConsumerRef]time.Time{},
		pace:      flowcontrol.NewTokenBucketRateLimiter(consumersPerSecond, consumersBurst),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](100*time.Millisecond, 30*time.Second)),
	}
}

// Changed queues a consumer whose ledger changed. It has the form of a ledger store's listener. It ignores what comes before
// TakeUp, because Compare sees all ledgers after that.
func (c *Controller) Changed(consumer quotav1alpha1.ConsumerRef, _ ledgerstore.Change) {
	if !c.leads.Load() {
		return
	}
	c.mu.Lock()
	since := time.Since(c.published[consumer])
	c.mu.Unlock()
	c.queue.AddAfter(consumer, max(firstDelay, interval-since))
}

// Run shows changes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	worker.Run(ctx, c.queue, workers, c.publish, func(consumer quotav1alpha1.ConsumerRef, err error) {
		if !isCacheStale(err) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		}
	})
	return nil
}

// Need asks for buckets of what a consumer requests, also where nothing is granted.
func (c *Controller) Need(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest) {
	for _, request := range requests {
		c.index.need(consumer, request.ResourceType)
	}
	c.Publish(consumer)
}

// Publish asks for what is shown of a consumer to be compared with its books.
func (c *Controller) Publish(consumer quotav1alpha1.ConsumerRef) { c.queue.Add(consumer) }

// Consumers returns those of which something may be shown, or there may be a ledger: all that changed or were asked for
// since this replica leads.
func (c *Controller) Consumers() []quotav1alpha1.ConsumerRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.published))
}

// Forget ends what is remembered of a consumer of which nothing is shown.
func (c *Controller) Forget(consumer quotav1alpha1.ConsumerRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.published, consumer)
}

// RegistrationsChanged asks for all quota to be shown anew that is displayed in another unit than
// its registration has now.
func (c *Controller) RegistrationsChanged() {
	consumers := c.index.displayedInOtherUnit(func(resourceType string) unit {
		return unitOf(c.Catalog.Registration(resourceType))
	})
	for _, consumer := range consumers {
		c.Publish(consumer)
	}
}
