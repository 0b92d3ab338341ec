// Package worker processes the items of work queues, for controllers without controller-runtime's watches. Like all of
// kube it knows no quota, and any internal package may import it.
package worker

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Run processes the items of a queue with a number of workers until ctx ends; then it shuts the queue down and returns.
// Two workers never process the same item at the same time. A failed item is passed to failed, while ctx is active, and
// processed again at the queue's rate.
func Run[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], workers int, process func(context.Context, T) error, failed func(T, error)) {
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for next(ctx, queue, process, failed) {
			}
		})
	}
	group.Wait()
}

func next[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], process func(context.Context, T) error, failed func(T, error)) bool {
	item, stopped := queue.Get()
	if stopped {
		return false
	}
	defer queue.Done(item)
	err := process(ctx, item)
	if err == nil {
		queue.Forget(item)
		return true
	}
	if ctx.Err() == nil {
		failed(item, err)
	}
	queue.AddRateLimited(item)
	return true
}
