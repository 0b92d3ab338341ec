package routing

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// takeoverPoll is the time between two checks whether this replica became the preferred one of a consumer.
	takeoverPoll = time.Second
	// TakeoverDelay is how long a replica leaves shared work to the preferred replica. A shorter delay would take work
	// from a busy replica and make it slower.
	TakeoverDelay = 5 * time.Second
)

// Replicas are the replicas that share the work. [Peers] implements it.
type Replicas interface {
	// IsPreferred reports whether this replica is the preferred one of a consumer.
	IsPreferred(consumer quotav1alpha1.ConsumerRef) bool
	// IsOnly reports whether there can be no other replica.
	IsOnly() bool
}

// PreferredFor returns a function that reports whether this replica is the preferred one of a consumer.
func PreferredFor(replicas Replicas, consumer quotav1alpha1.ConsumerRef) func() bool {
	return func() bool { return replicas.IsPreferred(consumer) }
}

// Enqueue adds an item that any replica may process: at once on the preferred replica, as soon as this replica becomes
// preferred, and after [TakeoverDelay] in any case.
func Enqueue[T comparable](queue workqueue.TypedInterface[T], isPreferred func() bool, item T) {
	if isPreferred() {
		queue.Add(item)
	} else {
		recheck(queue, isPreferred, item, TakeoverDelay)
	}
}

// recheck adds an item once this replica is the preferred one, within the remaining time.
func recheck[T comparable](queue workqueue.TypedInterface[T], isPreferred func() bool, item T, left time.Duration) {
	time.AfterFunc(takeoverPoll, func() {
		if left -= takeoverPoll; left <= 0 || isPreferred() {
			queue.Add(item)
		} else {
			recheck(queue, isPreferred, item, left)
		}
	})
}
