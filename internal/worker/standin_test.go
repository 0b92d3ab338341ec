package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		leads  Leads
		want   time.Duration
	}{
		"alone":   {"there is nobody else", nil, 0},
		"leads":   {"the others wait for it", func() bool { return true }, 0},
		"follows": {"the leader has had its time", func() bool { return false }, StandIn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedDelayingQueue[string]()
				began := time.Now()
				Share(queue, tc.leads, "item")
				if item, _ := queue.Get(); item != "item" || time.Since(began) != tc.want {
					t.Errorf("%s: got %q after %s, want it after %s", tc.reason, item, time.Since(began), tc.want)
				}
				queue.ShutDown()
				synctest.Wait()
			})
		})
	}
}
