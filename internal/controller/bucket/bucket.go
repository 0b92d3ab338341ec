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
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/worker"
)

const (
	// promptly is how long the first change after a quiet time waits for more, and interval how
	// long further ones do.
	promptly = 50 * time.Millisecond
	interval = 500 * time.Millisecond
	workers  = 4
	// showsPerSecond is how many consumers are shown a second, after a burst, whose books change: the more of
	// them change at a time, the later each is shown, and the API server has room for what is decided.
	showsPerSecond = 50
	showsBurst     = 200
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

	queue   workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]
	known   known
	former  former
	awaited awaited
	pace    flowcontrol.RateLimiter
	mu      sync.Mutex
	shown   map[quotav1alpha1.ConsumerRef]time.Time
}

// Start prepares the controller for changes.
func (c *Controller) Start() {
	c.shown = map[quotav1alpha1.ConsumerRef]time.Time{}
	c.pace = flowcontrol.NewTokenBucketRateLimiter(showsPerSecond, showsBurst)
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](100*time.Millisecond, 30*time.Second))
}

// Changed notes that the books of a consumer changed. It has the form of a ledger store's listener.
func (c *Controller) Changed(consumer quotav1alpha1.ConsumerRef, _ ledgerstore.Change) {
	c.mu.Lock()
	since := time.Since(c.shown[consumer])
	c.mu.Unlock()
	c.queue.AddAfter(consumer, max(promptly, interval-since))
}

// Run shows changes until ctx ends. It begins with all that is shown already: the books may have
// changed since it was written.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.takeUp(ctx); err != nil {
		return err
	}
	worker.Run(ctx, c.queue, workers, c.show, func(consumer quotav1alpha1.ConsumerRef, err error) {
		if !isBehind(err) {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		}
	})
	return nil
}

// takeUp asks for every consumer to be shown of which something is shown already, wherever that is.
// Buckets without an owner are from a version that made no effective grants; what owns them has to
// be made.
func (c *Controller) takeUp(ctx context.Context) error {
	var buckets quotav1alpha1.AllowanceBucketList
	if err := c.Client.List(ctx, &buckets); err != nil {
		return fmt.Errorf("list the buckets: %w", err)
	}
	for i := range buckets.Items {
		spec := &buckets.Items[i].Spec
		d, err := ledger.NewDimensions(spec.Dimensions)
		if err != nil {
			c.Log.Error(err, "cannot tell what a bucket shows, it is left alone", "bucket", buckets.Items[i].Name)
			continue
		}
		c.known.add(spec.ConsumerRef, spec.ResourceType, d)
		if s := c.subjectOf(spec.ConsumerRef, spec.ResourceType); isFormer(&buckets.Items[i], s.newBucket(d)) {
			c.former.add(spec.ConsumerRef, &buckets.Items[i])
		}
		if metav1.GetControllerOf(&buckets.Items[i]) == nil {
			c.known.need(spec.ConsumerRef, spec.ResourceType)
		}
		c.Show(spec.ConsumerRef)
	}
	var effective quotav1alpha1.EffectiveResourceGrantList
	if err := c.Client.List(ctx, &effective); err != nil {
		return fmt.Errorf("list the effective grants: %w", err)
	}
	for i := range effective.Items {
		spec := &effective.Items[i].Spec
		c.known.add(spec.ConsumerRef, spec.ResourceType)
		if s := c.subjectOf(spec.ConsumerRef, spec.ResourceType); isFormer(&effective.Items[i], s.newEffectiveGrant()) {
			c.former.add(spec.ConsumerRef, &effective.Items[i])
		}
		c.Show(spec.ConsumerRef)
	}
	return nil
}

// Need asks for buckets of what a consumer requests, also where nothing is granted.
func (c *Controller) Need(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest) {
	for _, request := range requests {
		c.known.need(consumer, request.ResourceType)
	}
	c.Show(consumer)
}

// Show asks for what is shown of a consumer to be compared with its books.
func (c *Controller) Show(consumer quotav1alpha1.ConsumerRef) { c.queue.Add(consumer) }

// Consumers returns those of which something may be shown, or there may be a ledger: all that changed or were asked for
// since this replica leads.
func (c *Controller) Consumers() []quotav1alpha1.ConsumerRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.shown))
}

// Forget ends what is remembered of a consumer of which nothing is shown.
func (c *Controller) Forget(consumer quotav1alpha1.ConsumerRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shown, consumer)
}

// RegistrationsChanged asks for all quota to be shown anew that is displayed in another unit than
// its registration has now.
func (c *Controller) RegistrationsChanged() {
	consumers := c.known.displayedOtherwise(func(resourceType string) unit {
		return unitOf(c.Catalog.Registration(resourceType))
	})
	for _, consumer := range consumers {
		c.Show(consumer)
	}
}
