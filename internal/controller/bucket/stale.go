package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// staleObjects remembers the objects found by IndexExisting outside the configured namespaces of their consumers.
// Nothing updates them, so the controller has to delete them. The zero value is ready to use, by several goroutines at
// once.
type staleObjects struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef][]client.Object
}

func (s *staleObjects) add(consumer quotav1alpha1.ConsumerRef, objects ...client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byConsumer == nil {
		s.byConsumer = map[quotav1alpha1.ConsumerRef][]client.Object{}
	}
	s.byConsumer[consumer] = append(s.byConsumer[consumer], objects...)
}

// take returns the objects of a consumer, and forgets them.
func (s *staleObjects) take(consumer quotav1alpha1.ConsumerRef) []client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.byConsumer[consumer]
	delete(s.byConsumer, consumer)
	return objects
}

// isStale reports whether an object has the name of Bursar's object for its consumer and another namespace. desired is
// the object for the current configuration.
func isStale(object, desired client.Object) bool {
	return object.GetName() == desired.GetName() && object.GetNamespace() != desired.GetNamespace()
}

// deleteStale deletes a consumer's objects outside its current namespace.
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
