package enforce

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// An honest user fills the limit with many clients at once although the watch lags by a second: no create is refused
// for good, and the last place is used. Clients repeat what is to be repeated, as client-go does.
func TestManyClientsOfOneUserWithASlowWatch(t *testing.T) {
	const clients, limit, lag = 32, 2000, time.Second
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, limit)
		s.patience = 6 * time.Second
		s.policy("globex", "false")
		seen := s.count()
		objects, client := followed(t)
		s.Objects = objects
		acme := organization("acme")
		version := ledger.Version(1)
		s.Objects.OnAppear(func(kind schema.GroupKind, uid types.UID) {
			s.Appeared(kind, uid)
			version++
			demand := inventory.Demand{Policy: "acme", Consumer: acme, Charges: []ledger.Charge{{ResourceType: "maps", Amount: 1}}}
			seen.Set(inventory.Object{UID: uid, Version: version, Demands: []inventory.Demand{demand}})
			s.Store.ObjectChanged(uid, []quotav1alpha1.ConsumerRef{acme})
		})
		var next, repeated atomic.Int64
		began := time.Now()

		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for n := next.Add(1); n <= limit; n = next.Add(1) {
					name := fmt.Sprint(n)
					for attempt := 0; ; attempt++ {
						uid := types.UID(fmt.Sprint(n, "-", attempt))
						answer := s.reviewBy(authenticationv1.UserInfo{Username: "ann"}, name, uid)
						if answer.Allowed {
							time.AfterFunc(lag, func() {
								object := &metav1.PartialObjectMetadata{
									TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
									ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid},
								}
								if err := client.Tracker().Add(object); err != nil {
									t.Error(err)
								}
							})
							break
						}
						if answer.Result.Code != http.StatusTooManyRequests {
							t.Errorf("create %d: %s", n, answer.Result.Message)
							break
						}
						repeated.Add(1)
						time.Sleep(time.Duration(answer.Result.Details.RetryAfterSeconds) * time.Second)
					}
					time.Sleep(clients * 2 * time.Millisecond) // 500 a second altogether
				}
			})
		}
		all.Wait()

		t.Logf("%d creates took %s, with %d repetitions", limit, time.Since(began), repeated.Load())
		time.Sleep(2 * lag)
		s.wantDenied(s.reviewBy(authenticationv1.UserInfo{Username: "ann"}, "more", "more"), http.StatusForbidden, "used: 2000, limited: 2000")
	})
}
