// Package worker processes the items of work queues. It is for controllers that follow something
// other than a watch of controller-runtime.
package worker

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Run has a number of workers process the items of a queue until ctx ends; then it shuts the queue
// down and returns. No item is processed by two workers at a time. One whose processing fails is
// told to failed, while ctx goes on, and processed again at the queue's rate.
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
