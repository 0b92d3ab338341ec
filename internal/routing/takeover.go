package routing

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// takeoverPoll is how often a replica looks whether it has become the preferred one of a consumer.
	takeoverPoll = time.Second
	// TakeoverDelay is how long a replica leaves the work that any may do to the preferred replica. A busy replica takes
	// less: taking over from one that is merely slow makes it slower.
	TakeoverDelay = 5 * time.Second
)

// PreferredFor returns a function that calls [Peers.IsPreferred] for a consumer.
func (p *Peers) PreferredFor(consumer quotav1alpha1.ConsumerRef) func() bool {
	return func() bool { return p.IsPreferred(consumer) }
}

// Enqueue adds an item that any replica may process: at once on the preferred replica, as soon as this one becomes that, and
// after [TakeoverDelay] in any case.
func Enqueue[T comparable](queue workqueue.TypedInterface[T], isPreferred func() bool, item T) {
	if isPreferred() {
		queue.Add(item)
	} else {
		recheck(queue, isPreferred, item, TakeoverDelay)
	}
}

// recheck adds an item once this replica is the preferred one, within the time that is left.
func recheck[T comparable](queue workqueue.TypedInterface[T], isPreferred func() bool, item T, left time.Duration) {
	time.AfterFunc(takeoverPoll, func() {
		if left -= takeoverPoll; left <= 0 || isPreferred() {
			queue.Add(item)
		} else {
			recheck(queue, isPreferred, item, left)
		}
	})
}
