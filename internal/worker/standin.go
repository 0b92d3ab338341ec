package worker

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// StandIn is how long a replica that does not lead leaves to the others what any of them may do.
const StandIn = time.Second

// Leads tells whether this replica does at once what any of them may do. One that is nil does.
type Leads func() bool

// Now tells whether this replica leads right now.
func (l Leads) Now() bool { return l == nil || l() }

// Share adds an item that any replica may process: to be processed by the one that leads at once, and
// by the others after [StandIn], in case that the leader has not.
func Share[T comparable](queue workqueue.TypedDelayingInterface[T], leads Leads, item T) {
	if leads.Now() {
		queue.Add(item)
	} else {
		queue.AddAfter(item, StandIn)
	}
}
