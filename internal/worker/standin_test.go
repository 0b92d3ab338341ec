package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		keeps  Keeps
		want   time.Duration
	}{
		"alone":  {"there is nobody else", nil, 0},
		"keeper": {"the others wait for it", func(quotav1alpha1.ConsumerRef) bool { return true }, 0},
		"other":  {"the keeper has had its time", func(quotav1alpha1.ConsumerRef) bool { return false }, StandIn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedDelayingQueue[string]()
				began := time.Now()
				Share(queue, tc.keeps.Of(quotav1alpha1.ConsumerRef{}), "item")
				if item, _ := queue.Get(); item != "item" || time.Since(began) != tc.want {
					t.Errorf("%s: got %q after %s, want it after %s", tc.reason, item, time.Since(began), tc.want)
				}
				queue.ShutDown()
				synctest.Wait()
			})
		})
	}
}
