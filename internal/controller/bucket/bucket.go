// Package bucket shows the books: for every consumer and resource type an AllowanceBucket with
// its limit, what is allocated and what is available. Buckets are a view. Nothing is decided on
// them, and changes that come quickly are shown together.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
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

// Run shows changes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		c.queue.ShutDown()
		return nil
	})
	for range workers {
		group.Go(func() error {
			for c.next(ctx) {
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Controller) next(ctx context.Context) bool {
	consumer, stopped := c.queue.Get()
	if stopped {
		return false
	}
	defer c.queue.Done(consumer)
	c.mu.Lock()
	c.shown[consumer] = time.Now()
	c.mu.Unlock()
	if err := c.show(ctx, consumer); err != nil {
		if ctx.Err() == nil {
			c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
		}
		c.queue.AddRateLimited(consumer)
		return true
	}
	c.queue.Forget(consumer)
	return true
}

// show writes the buckets of a consumer.
func (c *Controller) show(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
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
		errs = append(errs, c.write(ctx, consumer, resourceType, status))
	}
	return errors.Join(errs...)
}

// statusOf reads one resource type from the books. What is reserved counts as allocated: it is
// not available to anyone else.
func statusOf(books *ledger.Ledger, resourceType string) quotav1alpha1.AllowanceBucketStatus {
	account := books.Account(resourceType)
	status := quotav1alpha1.AllowanceBucketStatus{
		Limit:      int64(account.Limit),
		Allocated:  int64(account.Used + account.Reserved),
		Available:  int64(account.Available),
		ClaimCount: int32(account.Claims),
	}
	for grant := range books.Grants() {
		var amount ledger.Amount
		contributes := false
		for _, allowance := range grant.Allowances {
			if allowance.ResourceType == resourceType {
				amount, contributes = amount+allowance.Amount, true // no more than the limit, which fits
			}
		}
		if contributes {
			status.GrantCount++
			status.ContributingGrantRefs = append(status.ContributingGrantRefs, quotav1alpha1.ContributingGrantRef{
				Name: grant.Name, Amount: int64(amount), LastObservedGeneration: grant.Generation,
			})
		}
	}
	return status
}

// write creates or updates one bucket, unless it says the same already.
func (c *Controller) write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType string, status quotav1alpha1.AllowanceBucketStatus) error {
	name := types.NamespacedName{Namespace: c.namespaceOf(consumer), Name: naming.Bucket(consumer, resourceType)}
	bucket := &quotav1alpha1.AllowanceBucket{}
	err := c.Client.Get(ctx, name, bucket)
	if apierrors.IsNotFound(err) {
		bucket = newBucket(name, consumer, resourceType)
		err = c.Client.Create(ctx, bucket)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	if bucket.Spec.ConsumerRef != consumer || bucket.Spec.ResourceType != resourceType {
		return fmt.Errorf("bucket %s is of another consumer or resource type", name)
	}
	status.ObservedGeneration = bucket.Generation
	status.LastReconciliation = bucket.Status.LastReconciliation
	if equality.Semantic.DeepEqual(bucket.Status, status) {
		return nil
	}
	now := metav1.Now()
	status.LastReconciliation = &now
	updated := bucket.DeepCopy()
	updated.Status = status
	if err := c.Client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("status of bucket %s: %w", name, err)
	}
	return nil
}

func newBucket(name types.NamespacedName, consumer quotav1alpha1.ConsumerRef, resourceType string) *quotav1alpha1.AllowanceBucket {
	return &quotav1alpha1.AllowanceBucket{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace,
			Name:      name.Name,
			Labels: map[string]string{
				quotav1alpha1.LabelConsumerKind: claims.LabelValue(consumer.Kind),
				quotav1alpha1.LabelConsumerName: claims.LabelValue(consumer.Name),
			},
		},
		Spec: quotav1alpha1.AllowanceBucketSpec{ConsumerRef: consumer, ResourceType: resourceType},
	}
}

// namespaceOf is where the buckets of a consumer are.
func (c *Controller) namespaceOf(consumer quotav1alpha1.ConsumerRef) string {
	if consumer.Namespace != "" {
		return consumer.Namespace
	}
	template, ok := c.Namespaces[schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}]
	if !ok {
		return c.SystemNamespace
	}
	return strings.ReplaceAll(template, "{{name}}", consumer.Name)
}

// Show asks for the buckets of a consumer to be compared with its books.
func (c *Controller) Show(consumer quotav1alpha1.ConsumerRef) { c.queue.Add(consumer) }
