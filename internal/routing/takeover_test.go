package routing

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestShare(t *testing.T) {
	never := 24 * time.Hour
	for name, tc := range map[string]struct {
		reason        string
		isAlone       bool
		preferredFrom time.Duration // from when it is shared
		want          time.Duration
	}{
		"alone":     {"there is nobody else", true, 0, 0},
		"preferred": {"the others wait for it", false, 0, 0},
		"next":      {"the preferred replica no longer answers", false, 1500 * time.Millisecond, 2 * time.Second},
		"other":     {"the preferred replica has had its time", false, never, TakeoverDelay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedDelayingQueue[string]()
				began := time.Now()
				isPreferred := func() bool { return time.Since(began) >= tc.preferredFrom }
				if tc.isAlone {
					isPreferred = PreferredFor((*Peers)(nil), quotav1alpha1.ConsumerRef{})
				}
				Enqueue(queue, isPreferred, "item")
				if item, _ := queue.Get(); item != "item" || time.Since(began) != tc.want {
					t.Errorf("%s: got %q after %s, want it after %s", tc.reason, item, time.Since(began), tc.want)
				}
				queue.ShutDown()
				synctest.Wait()
			})
		})
	}
}
