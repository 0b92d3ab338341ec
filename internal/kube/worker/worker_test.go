package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
		var processed, failures atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, queue, 2, func(_ context.Context, item string) error {
				if item == "flaky" && processed.Add(1) < 3 {
					return errors.New("not yet")
				}
				return nil
			}, func(string, error) { failures.Add(1) })
		}()
		queue.Add("flaky")
		queue.Add("steady")
		time.Sleep(time.Minute) // of the test's own clock
		if processed.Load() != 3 || failures.Load() != 2 || queue.NumRequeues("flaky") != 0 {
			t.Errorf("processed %d times, %d failures told, %d retries remembered; want 3, 2 and none",
				processed.Load(), failures.Load(), queue.NumRequeues("flaky"))
		}
		cancel()
		<-ended
	})
}
