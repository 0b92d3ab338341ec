// Package bucket publishes the ledgers: for every consumer and resource type an EffectiveResourceGrant. It owns an
// AllowanceBucket for the whole type and one for each dimension set in use, all with limit, allocated and available
// amounts. They are a view: no decision depends on them.
//
// People read the view, so it changes at their pace. It shows the first change after a quiet time within a second,
// further ones of the consumer every few seconds, and all consumers together at a bounded rate. The controller writes
// the effective grant together with its buckets. The pace alone leaves a sixth of the writes of a busy consumer, and a
// reader finds the same amounts in both. A slower effective grant would need a second publication to become right.
//
// The unit of work is a consumer. The controller reads its ledger at one instant and writes each different object. So
// the number of writes is the number of changed buckets.
//
// Only the operator and tests import it.
package bucket

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// workers is the number of concurrent publications of consumers. One with many dimension sets takes seconds.
const workers = 4

// Ledgers reads the ledgers.
type Ledgers interface {
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Held knows the reservations of overdue requests.
type Held interface {
	// Overdue returns those of a consumer. mayBecome is true if others may soon be overdue, too.
	Overdue(consumer quotav1alpha1.ConsumerRef) (overdue []ledgerstore.InFlight, mayBecome bool)
}

// Controller publishes ledgers. Set its fields once and call Start. A leader then calls Follow, IndexExisting and Run.
type Controller struct {
	// Client reads from Cache. Other replicas than the leader read no buckets and effective grants from it.
	Client  client.Client
	Cache   cache.Informers
	Ledgers Ledgers
	// Held, if set, keeps what such requests hold out of the allocated amounts.
	Held    Held
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
	pace    *pace
	lag     lag
	// IndexExisting sets leads.
	leads atomic.Bool
}

// Start prepares the controller for changes.
func (c *Controller) Start() {
	p := newPace()
	c.state = &state{pace: p, queue: newQueue(p)}
}

// Changed queues a consumer after a change of its ledger. It has the signature of a ledger store's listener. It ignores
// changes before IndexExisting, because Compare sees all ledgers afterwards.
func (c *Controller) Changed(consumer quotav1alpha1.ConsumerRef, _ ledgerstore.Change) {
	if c.leads.Load() {
		c.lag.changed(consumer, time.Now())
		c.publishSoon(consumer)
	}
}

// Run publishes changes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.lag.clear()
	worker.Run(ctx, c.queue, workers, c.publish, func(consumer quotav1alpha1.ConsumerRef, err error) {
		if !isCacheStale(err) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		}
	})
	return nil
}

// Need requests buckets for the requested resource types of a consumer, also without a grant.
func (c *Controller) Need(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest) {
	for _, request := range requests {
		c.index.need(consumer, request.ResourceType)
	}
	c.Publish(consumer)
}

// Publish queues the comparison of a consumer's buckets with its ledger. It waits for nothing more, but the pace holds.
func (c *Controller) Publish(consumer quotav1alpha1.ConsumerRef) {
	c.lag.changed(consumer, time.Now())
	c.queue.Add(consumer)
}

// publishSoon queues a consumer, to include changes shortly after, or for the end of its interval.
func (c *Controller) publishSoon(consumer quotav1alpha1.ConsumerRef) {
	c.queue.AddAfter(consumer, max(firstDelay, c.pace.early(consumer)))
}

// Consumers returns the consumers with possible buckets or a ledger: all with a change or a place in the queue since
// this replica leads.
func (c *Controller) Consumers() []quotav1alpha1.ConsumerRef { return c.pace.consumers() }

// Forget drops a consumer without buckets.
func (c *Controller) Forget(consumer quotav1alpha1.ConsumerRef) {
	c.pace.forget(consumer)
	c.lag.take(consumer)
}

// RegistrationsChanged queues consumers if the display of their quota has another name or unit than the current
// registration.
func (c *Controller) RegistrationsChanged() {
	consumers := c.index.displayedOtherwise(func(resourceType string) display {
		return displayOf(c.Catalog.Registration(resourceType))
	})
	for _, consumer := range consumers {
		c.Publish(consumer)
	}
}
