package routing

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// lookInterval is how often a replica looks whether it has come to keep a consumer's ledger.
	lookInterval = time.Second
	// TakeoverDelay is how long a replica leaves to another that keeps a consumer's ledger what any of them may
	// do. It is longer than a busy keeper takes: who stands in for one that is merely slow makes it slower.
	TakeoverDelay = 5 * time.Second
)

// Preferred tells whether this replica keeps the ledger of a consumer, and so does at once what any of them may
// do for it. One that is nil keeps all.
type Preferred func(consumer quotav1alpha1.ConsumerRef) bool

// Here tells whether this replica keeps the ledger of a consumer right now.
func (k Preferred) Here(consumer quotav1alpha1.ConsumerRef) bool { return k == nil || k(consumer) }

// For is Of for a consumer, to be asked later.
func (k Preferred) For(consumer quotav1alpha1.ConsumerRef) func() bool {
	return func() bool { return k.Here(consumer) }
}

// Share adds an item that any replica may process: at once if it keeps the ledger, as soon as it comes to
// keep it, because the former keeper does not answer, and after [TakeoverDelay] in any case.
func Share[T comparable](queue workqueue.TypedInterface[T], keeps func() bool, item T) {
	if keeps() {
		queue.Add(item)
	} else {
		lookAgain(queue, keeps, item, TakeoverDelay)
	}
}

// lookAgain adds an item once this replica keeps the ledger, within the time that is left.
func lookAgain[T comparable](queue workqueue.TypedInterface[T], keeps func() bool, item T, left time.Duration) {
	time.AfterFunc(lookInterval, func() {
		if left -= lookInterval; left <= 0 || keeps() {
			queue.Add(item)
		} else {
			lookAgain(queue, keeps, item, left)
		}
	})
}
