package enforce

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// One user never holds more by creates without an object than it leaves to others, however it makes them.
func TestFailingCreatesLeaveHalfToOthers(t *testing.T) {
	tests := map[string]struct {
		reason string
		as     func(n int) authenticationv1.UserInfo
	}{
		"a user": {"the bound is for the user", func(int) authenticationv1.UserInfo {
			return authenticationv1.UserInfo{Username: "mallory"}
		}},
		"many ServiceAccounts": {"whoever may make one may make many", func(n int) authenticationv1.UserInfo {
			return authenticationv1.UserInfo{Username: fmt.Sprintf("system:serviceaccount:tenant:sa-%d", n)}
		}},
		"a controller of the control plane": {"the tenant decides what it creates in the namespace", func(int) authenticationv1.UserInfo {
			return authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:replicaset-controller"}
		}},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 20)
				s.policy("globex", "false")
				s.Objects, _ = listed(t)

				var attempts sync.WaitGroup
				for n := range 25 {
					attempts.Go(func() { s.reviewBy(tt.as(n), fmt.Sprint(n), types.UID(fmt.Sprint(n))) })
				}
				attempts.Wait()

				if held := len(s.memory.Snapshot(organization("acme")).Reservations); held != 10 {
					t.Errorf("%s: %d of 20 are held, want half", tt.reason, held)
				}
				s.wantDenied(s.reviewBy(tt.as(99), "more", "more"), http.StatusTooManyRequests, "hold quota of Organization acme")
				s.wantAllowed(s.reviewBy(authenticationv1.UserInfo{Username: "victim"}, "sibling", "sibling"))
			})
		})
	}
}

// A user who creates objects that appear is not slowed down: what has appeared holds nothing.
func TestObjectsThatAppearFreeTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 100)
		var store func(types.UID)
		s.Objects, store = listed(t)
		began := time.Now()
		for n := range 100 {
			uid := types.UID(fmt.Sprint(n))
			s.wantAllowed(s.review(uid))
			store(uid)
			s.Appeared(schema.GroupKind{Kind: "ConfigMap"}, uid)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it took %s on a clock that stands still", waited)
		}
	})
}

// Nobody can hold a whole limit by one failing request after the other. Who only fails, and is in nobody's way, is
// denied no quota that is free.
func TestOneFailureAfterTheOther(t *testing.T) {
	for name, isInTheWay := range map[string]bool{"in the way of others": true, "in nobody's way": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 1)
				s.policy("globex", "false")
				s.Objects, _ = listed(t)
				mallory, victim := authenticationv1.UserInfo{Username: "mallory"}, authenticationv1.UserInfo{Username: "victim"}
				for n := range failuresMin {
					s.wantAllowed(s.reviewBy(mallory, fmt.Sprint(n), types.UID(fmt.Sprint(n))))
					if isInTheWay {
						s.wantDenied(s.reviewBy(victim, "sibling", "sibling"), http.StatusTooManyRequests, "requests in flight hold 1 map")
					}
					time.Sleep(s.Store.ReservationLifetime)
					synctest.Wait()
					for _, reservation := range s.Store.ReservationsOf(organization("acme")) {
						if err := s.Store.Cancel(t.Context(), reservation.Consumer, reservation.Key, reservation.Sequence); err != nil {
							t.Fatal(err)
						}
					}
				}

				answer := s.reviewBy(mallory, "more", "more")

				if !isInTheWay {
					s.wantAllowed(answer)
					return
				}
				s.wantDenied(answer, http.StatusTooManyRequests, "earlier requests by user mallory failed while others were refused quota of Organization acme")
				if strings.Contains(answer.Result.Message, "in flight") {
					t.Errorf("nothing is in flight, and the answer is %q", answer.Result.Message)
				}
				s.wantAllowed(s.reviewBy(victim, "sibling", "sibling"))
			})
		})
	}
}

// A user cannot hide what an update holds by another update of the same object that is refused.
func TestRefusedUpdateHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 10)
		s.follow(quotav1alpha1.EnforcementModeEnforce, "true")
		s.use(1)
		s.Objects, _ = listed(t)
		mallory := authenticationv1.UserInfo{Username: "mallory"}
		update := func(to int) *admissionv1.AdmissionResponse {
			return s.ask(s, &admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, UserInfo: mallory, OldObject: numbered("1", 1), Object: numbered("1", to),
			})
		}
		s.wantAllowed(update(5))

		s.wantDenied(update(20), http.StatusForbidden, "exceeded quota")

		create := func(user authenticationv1.UserInfo) *admissionv1.AdmissionResponse {
			return s.ask(s, &admissionv1.AdmissionRequest{Operation: admissionv1.Create, UserInfo: user, Object: runtime.RawExtension{Raw: []byte(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"b","uid":"v"},"data":{"n":"3"}}`)}})
		}
		s.wantDenied(create(mallory), http.StatusTooManyRequests, "hold quota of Organization acme")
		s.wantAllowed(create(authenticationv1.UserInfo{Username: "victim"}))
	})
}
