package bucket

import (
	"maps"
	"slices"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// bucketIndex remembers the resource types and dimension sets with possible buckets of a consumer. A ledger forgets a
// type without grants and usage, and a dimension set without usage. The buckets stay, and need an update to zero. The
// zero value is ready to use, by several goroutines at once.
type bucketIndex struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]*indexedType
}

// indexedType is one resource type of one consumer.
type indexedType struct {
	// needed makes the controller create the buckets although the ledger may not have the type.
	needed bool
	// shown is the last display.
	shown display
	// sets are the dimension sets with a possible bucket, besides the bucket of the whole type.
	sets map[ledger.Dimensions]struct{}
}

// add records a resource type and its dimension sets. It ignores the empty set.
func (k *bucketIndex) add(consumer quotav1alpha1.ConsumerRef, resourceType string, sets ...ledger.Dimensions) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.typeLocked(consumer, resourceType)
	for _, d := range sets {
		if !d.IsZero() {
			t.sets[d] = struct{}{}
		}
	}
}

// need demands the buckets of a resource type until the call of made.
func (k *bucketIndex) need(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typeLocked(consumer, resourceType).needed = true
}

// made ends the need for the buckets of a resource type.
func (k *bucketIndex) made(consumer quotav1alpha1.ConsumerRef, resourceType string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.byConsumer[consumer][resourceType]; t != nil {
		t.needed = false
	}
}

// display records the display of an indexed resource type.
func (k *bucketIndex) display(consumer quotav1alpha1.ConsumerRef, resourceType string, d display) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.byConsumer[consumer][resourceType]; t != nil {
		t.shown = d
	}
}

// forget drops a dimension set of a resource type or, if it is empty, the type.
func (k *bucketIndex) forget(consumer quotav1alpha1.ConsumerRef, resourceType string, d ledger.Dimensions) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.byConsumer[consumer][resourceType]; t != nil && !d.IsZero() {
		delete(t.sets, d)
		return
	}
	delete(k.byConsumer[consumer], resourceType)
	if len(k.byConsumer[consumer]) == 0 {
		delete(k.byConsumer, consumer)
	}
}

// consumers returns all indexed consumers.
func (k *bucketIndex) consumers() []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.byConsumer))
}

// of returns a copy of a consumer's entries, by resource type.
func (k *bucketIndex) of(consumer quotav1alpha1.ConsumerRef) map[string]indexEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	types := map[string]indexEntry{}
	for resourceType, t := range k.byConsumer[consumer] {
		r := indexEntry{needed: t.needed, sets: make([]ledger.Dimensions, 0, len(t.sets))}
		for d := range t.sets {
			r.sets = append(r.sets, d)
		}
		types[resourceType] = r
	}
	return types
}

// indexEntry is a copy of an indexed resource type.
type indexEntry struct {
	needed bool
	sets   []ledger.Dimensions
}

// displayedOtherwise returns the consumers with quota in an outdated display: another one than displayOf returns for
// the resource type.
func (k *bucketIndex) displayedOtherwise(displayOf func(resourceType string) display) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	displays := map[string]display{}
	var consumers []quotav1alpha1.ConsumerRef
	for consumer, types := range k.byConsumer {
		differs := false
		for resourceType, t := range types {
			if _, found := displays[resourceType]; !found {
				displays[resourceType] = displayOf(resourceType)
			}
			differs = differs || t.shown != displays[resourceType]
		}
		if differs {
			consumers = append(consumers, consumer)
		}
	}
	return consumers
}

func (k *bucketIndex) typeLocked(consumer quotav1alpha1.ConsumerRef, resourceType string) *indexedType {
	if k.byConsumer == nil {
		k.byConsumer = map[quotav1alpha1.ConsumerRef]map[string]*indexedType{}
	}
	if k.byConsumer[consumer] == nil {
		k.byConsumer[consumer] = map[string]*indexedType{}
	}
	t := k.byConsumer[consumer][resourceType]
	if t == nil {
		t = &indexedType{sets: map[ledger.Dimensions]struct{}{}}
		k.byConsumer[consumer][resourceType] = t
	}
	return t
}
