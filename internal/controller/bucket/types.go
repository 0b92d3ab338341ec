package bucket

import (
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// resourceTypes remembers of which types a consumer may have a bucket. Books forget a type once
// nothing is granted or used; a bucket stays, and has to say so. The zero value is ready to
// use, by several goroutines at once.
type resourceTypes struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]struct{}
}

func (r *resourceTypes) add(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byConsumer == nil {
		r.byConsumer = map[quotav1alpha1.ConsumerRef]map[string]struct{}{}
	}
	if r.byConsumer[consumer] == nil {
		r.byConsumer[consumer] = map[string]struct{}{}
	}
	r.byConsumer[consumer][resourceType] = struct{}{}
}

func (r *resourceTypes) remove(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byConsumer[consumer], resourceType)
	if len(r.byConsumer[consumer]) == 0 {
		delete(r.byConsumer, consumer)
	}
}

// of returns the types of a consumer, in no order.
func (r *resourceTypes) of(consumer quotav1alpha1.ConsumerRef) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]string, 0, len(r.byConsumer[consumer]))
	for resourceType := range r.byConsumer[consumer] {
		all = append(all, resourceType)
	}
	return all
}
