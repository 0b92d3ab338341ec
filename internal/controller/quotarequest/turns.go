package quotarequest

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// turns orders waiting requests so that consumers take turns: many requests of one consumer delay those of another by
// one look each. A workqueue calls it under its lock.
type turns struct {
	requests client.Reader // a cache
	// waiting has the requests of each consumer in their order, and order the consumers with some, the next first.
	waiting map[string][]reconcile.Request
	order   []string
	len     int
}

// newQueue returns a queue of a controller in which consumers take turns.
func newQueue(requests client.Reader, name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: newTurns(requests)})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name:          name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: ordered}),
	})
}

func newTurns(requests client.Reader) *turns {
	return &turns{requests: requests, waiting: map[string][]reconcile.Request{}}
}

// Touch implements [workqueue.Queue]. A request that waits keeps its place.
func (t *turns) Touch(reconcile.Request) {}

// Push implements [workqueue.Queue].
func (t *turns) Push(request reconcile.Request) {
	consumer := t.consumerOf(request)
	if len(t.waiting[consumer]) == 0 {
		t.order = append(t.order, consumer)
	}
	t.waiting[consumer] = append(t.waiting[consumer], request)
	t.len++
}

// Len implements [workqueue.Queue].
func (t *turns) Len() int { return t.len }

// Pop implements [workqueue.Queue].
func (t *turns) Pop() reconcile.Request {
	consumer := t.order[0]
	t.order = t.order[1:]
	next := t.waiting[consumer][0]
	if rest := t.waiting[consumer][1:]; len(rest) > 0 {
		t.waiting[consumer], t.order = rest, append(t.order, consumer)
	} else {
		delete(t.waiting, consumer)
	}
	t.len--
	return next
}

// consumerOf returns the consumer of a request. A deleted one, or one the cache does not have yet, counts as one of
// its namespace.
func (t *turns) consumerOf(name reconcile.Request) string {
	request := &quotav1alpha1.QuotaRequest{}
	if err := t.requests.Get(context.Background(), name.NamespacedName, request); err != nil {
		return name.Namespace
	}
	return naming.Ledger(request.Spec.ConsumerRef)
}
