package worker

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// NewFairQueue returns a queue that serves groups in turn. The items of one group, however many, do not delay those of
// another. The queue serves the items of one group in order of arrival. retry and retryMax bound the delay of a failed
// item. The delay doubles each time.
func NewFairQueue[T, G comparable](groupOf func(T) G, retry, retryMax time.Duration) workqueue.TypedRateLimitingInterface[T] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: &fairQueue[T, G]{groupOf: groupOf, items: map[G][]T{}}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](retry, retryMax),
		workqueue.TypedRateLimitingQueueConfig[T]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Queue: queue}),
		})
}

// fairQueue implements [workqueue.Queue]. Its user locks it.
type fairQueue[T, G comparable] struct {
	groupOf func(T) G
	// items are the items of each non-empty group, and groups the order of turns.
	items  map[G][]T
	groups []G
	length int
}

func (q *fairQueue[T, G]) Touch(T) {}

func (q *fairQueue[T, G]) Push(item T) {
	group := q.groupOf(item)
	if len(q.items[group]) == 0 {
		q.groups = append(q.groups, group)
	}
	q.items[group] = append(q.items[group], item)
	q.length++
}

func (q *fairQueue[T, G]) Len() int { return q.length }

func (q *fairQueue[T, G]) Pop() T {
	group := q.groups[0]
	q.groups = q.groups[1:]
	item := q.items[group][0]
	q.items[group] = q.items[group][1:]
	q.length--
	if len(q.items[group]) == 0 {
		delete(q.items, group)
	} else {
		q.groups = append(q.groups, group)
	}
	return item
}
