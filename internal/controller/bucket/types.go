package bucket

import (
	"maps"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// resourceTypes remembers of which types a consumer may have a bucket, and of which it must. Books
// forget a type once nothing is granted or used; a bucket stays, and has to say so. The zero
// value is ready to use, by several goroutines at once.
type resourceTypes struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]bool // whether the bucket must be made
}

func (r *resourceTypes) add(consumer quotav1alpha1.ConsumerRef, resourceType string, needed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byConsumer == nil {
		r.byConsumer = map[quotav1alpha1.ConsumerRef]map[string]bool{}
	}
	if r.byConsumer[consumer] == nil {
		r.byConsumer[consumer] = map[string]bool{}
	}
	r.byConsumer[consumer][resourceType] = needed
}

func (r *resourceTypes) remove(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byConsumer[consumer], resourceType)
	if len(r.byConsumer[consumer]) == 0 {
		delete(r.byConsumer, consumer)
	}
}

// of returns the types of a consumer, and of each whether its bucket must be made.
func (r *resourceTypes) of(consumer quotav1alpha1.ConsumerRef) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byConsumer[consumer])
}
