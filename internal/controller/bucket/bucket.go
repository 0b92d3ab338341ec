// Package bucket shows the books: for every consumer and resource type an AllowanceBucket with
// its limit, what is allocated and what is available. Buckets are a view. Nothing is decided on
// them, and changes that come quickly are shown together.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
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
)

// Ledgers is where the books are read.
type Ledgers interface {
	View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error
}

// Controller keeps the buckets. Its fields are set once; call Start, then Run.
type Controller struct {
	Client  client.Client
	Ledgers Ledgers
	// SystemNamespace holds the buckets of consumers that have no namespace; Namespaces gives
	// the namespace of consumers of a kind, with {{name}} standing for the consumer's name.
	SystemNamespace string
	Namespaces      map[schema.GroupKind]string
	Log             logr.Logger

	queue workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]
	types resourceTypes
	mu    sync.Mutex
	shown map[quotav1alpha1.ConsumerRef]time.Time
}

// Start prepares the controller for changes.
func (c *Controller) Start() {
	c.shown = map[quotav1alpha1.ConsumerRef]time.Time{}
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

// Run shows changes until ctx ends. It begins with all buckets that there are: the books may
// have changed since they were written.
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

// takeUp asks for every consumer that has a bucket to be shown.
func (c *Controller) takeUp(ctx context.Context) error {
	var list quotav1alpha1.AllowanceBucketList
	if err := c.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list the buckets: %w", err)
	}
	for i := range list.Items {
		spec := &list.Items[i].Spec
		c.types.add(spec.ConsumerRef, spec.ResourceType, false)
		c.Show(spec.ConsumerRef)
	}
	return nil
}

// show writes the buckets of a consumer: those of the resource types in its books, and those
// that were shown before, of which the books now know nothing.
func (c *Controller) show(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
	c.mu.Lock()
	c.shown[consumer] = time.Now()
	c.mu.Unlock()
	statuses := map[string]quotav1alpha1.AllowanceBucketStatus{}
	err := c.Ledgers.View(ctx, consumer, func(books *ledger.Ledger) {
		for _, resourceType := range books.ResourceTypes() {
			statuses[resourceType] = statusOf(books, resourceType)
		}
	})
	if err != nil {
		return err
	}
	var errs []error
	for resourceType, status := range statuses {
		err := c.write(ctx, consumer, resourceType, status)
		if err == nil {
			c.types.add(consumer, resourceType, false)
		}
		errs = append(errs, err)
	}
	for resourceType, needed := range c.types.of(consumer) {
		if _, known := statuses[resourceType]; known {
			continue
		}
		report := c.clear
		if needed {
			report = c.writeZero
		}
		err := report(ctx, consumer, resourceType)
		if err == nil {
			c.types.remove(consumer, resourceType)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Need asks for buckets of what a consumer requests, also where nothing is granted.
func (c *Controller) Need(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest) {
	for _, request := range requests {
		c.types.add(consumer, request.ResourceType, true)
	}
	c.Show(consumer)
}

// Show asks for the buckets of a consumer to be compared with its books.
func (c *Controller) Show(consumer quotav1alpha1.ConsumerRef) { c.queue.Add(consumer) }
