package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// staleObjects remembers what was found, at the start, to be shown of consumers in namespaces that are not
// theirs by the configuration of now. Nobody keeps it up to date, so it has to go. The zero value is
// ready to use, by several goroutines at once.
type staleObjects struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef][]client.Object
}

func (f *staleObjects) add(consumer quotav1alpha1.ConsumerRef, objects ...client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byConsumer == nil {
		f.byConsumer = map[quotav1alpha1.ConsumerRef][]client.Object{}
	}
	f.byConsumer[consumer] = append(f.byConsumer[consumer], objects...)
}

// take returns what is remembered of a consumer, and forgets it.
func (f *staleObjects) take(consumer quotav1alpha1.ConsumerRef) []client.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects := f.byConsumer[consumer]
	delete(f.byConsumer, consumer)
	return objects
}

// isStale tells whether an object is one that Bursar made, which its name says, where the quota of
// its consumer is not shown any more. wanted is what it would be if it were made now.
func isStale(object, desired client.Object) bool {
	return object.GetName() == desired.GetName() && object.GetNamespace() != desired.GetNamespace()
}

// deleteStale deletes what is shown of a consumer in namespaces that are not its own any more.
func (c *Controller) deleteStale(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
	var errs []error
	for _, object := range c.stale.take(consumer) {
		if err := c.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			c.stale.add(consumer, object)
			errs = append(errs, fmt.Errorf("delete %T %s from the former namespace %s: %w", object, object.GetName(), object.GetNamespace(), err))
		}
	}
	return errors.Join(errs...)
}
