// Package bucket publishes the ledgers: for every consumer and resource type an EffectiveResourceGrant. It owns an
// AllowanceBucket for the whole type and one for each dimension set in use, all with limit, allocated and available
// amounts. They are a view: no decision depends on them, and changes in quick succession are published together.
//
// The unit of work is a consumer. The controller reads its ledger at one instant and writes each object that differs.
// So the number of writes is the number of changed buckets.
//
// Only the operator and tests import it.
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
	// firstDelay is how long the first change after a quiet time waits for more, and interval how long further changes
	// wait.
	firstDelay = 50 * time.Millisecond
	interval   = 500 * time.Millisecond
	workers    = 4
	// consumersPerSecond bounds how many changed consumers are published a second, after a burst. Many changes at a
	// time are published later, so that the API server has room for decisions.
	consumersPerSecond = 50
	consumersBurst     = 200
)

// Ledgers reads the ledgers.
type Ledgers interface {
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Controller publishes ledgers. Set its fields once; call Start, then Run.
type Controller struct {
	Client  client.Client
	Ledgers Ledgers
	Catalog *catalog.Catalog
	// SystemNamespace is the namespace for the quota of consumers without a namespace. Namespaces gives the namespace
	// of consumers by kind, with {{name}} standing for the consumer's name.
	SystemNamespace string
	Namespaces      map[schema.GroupKind]string
	// Events receives the consumers without a namespace for their quota.
	Events events.EventRecorder
	Log    logr.Logger

	*state
}

// state is the controller's memory.
type state struct {
	queue   workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]
	index   bucketIndex
	stale   staleObjects
	waiters namespaceWaiters
	pace    flowcontrol.RateLimiter
	// leads is set by IndexExisting.
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

// Changed queues a consumer after a change of its ledger. It has the signature of a ledger store's listener. It ignores
// changes before IndexExisting, because Compare sees all ledgers after that.
func (c *Controller) Changed(consumer quotav1alpha1.ConsumerRef, _ ledgerstore.Change) {
	if !c.leads.Load() {
		return
	}
	c.mu.Lock()
	since := time.Since(c.published[consumer])
	c.mu.Unlock()
	c.queue.AddAfter(consumer, max(firstDelay, interval-since))
}

// Run publishes changes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	worker.Run(ctx, c.queue, workers, c.publish, func(consumer quotav1alpha1.ConsumerRef, err error) {
		if !isCacheStale(err) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		}
	})
	return nil
}

// Need requests buckets for the resource types that a consumer requests, also without a grant.
func (c *Controller) Need(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest) {
	for _, request := range requests {
		c.index.need(consumer, request.ResourceType)
	}
	c.Publish(consumer)
}

// Publish queues the comparison of a consumer's buckets with its ledger.
func (c *Controller) Publish(consumer quotav1alpha1.ConsumerRef) { c.queue.Add(consumer) }

// Consumers returns the consumers that may have buckets or a ledger: all that changed or were queued since this replica
// leads.
func (c *Controller) Consumers() []quotav1alpha1.ConsumerRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.published))
}

// Forget drops a consumer without buckets.
func (c *Controller) Forget(consumer quotav1alpha1.ConsumerRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.published, consumer)
}

// RegistrationsChanged queues consumers whose quota is displayed in another unit than that of the current registration.
func (c *Controller) RegistrationsChanged() {
	consumers := c.index.displayedInOtherUnit(func(resourceType string) unit {
		return unitOf(c.Catalog.Registration(resourceType))
	})
	for _, consumer := range consumers {
		c.Publish(consumer)
	}
}
