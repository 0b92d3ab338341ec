package worker

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// StandIn is how long a replica leaves to the one that keeps a consumer's ledger what any of them may do.
const StandIn = time.Second

// Keeps tells whether this replica keeps the ledger of a consumer, and so does at once what any of them may
// do for it. One that is nil keeps all.
type Keeps func(consumer quotav1alpha1.ConsumerRef) bool

// Of tells whether this replica keeps the ledger of a consumer right now.
func (k Keeps) Of(consumer quotav1alpha1.ConsumerRef) bool { return k == nil || k(consumer) }

// Share adds an item that any replica may process: to be processed by the one that keeps the ledger at
// once, and by the others after [StandIn], in case that it has not.
func Share[T comparable](queue workqueue.TypedDelayingInterface[T], keeps bool, item T) {
	if keeps {
		queue.Add(item)
	} else {
		queue.AddAfter(item, StandIn)
	}
}
