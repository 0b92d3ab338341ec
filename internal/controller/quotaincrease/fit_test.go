package quotaincrease

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var quotas = schema.GroupResource{Resource: "resourcequotas"}

// A change of scopes replaces a ResourceQuota. The reconciler deletes it only when its successor is certainly possible.
func TestScopesChange(t *testing.T) {
	tests := map[string]struct {
		reason string
		verb   string
		err    error
		writes []string
		isKept bool
		fails  bool
		again  bool
	}{
		"Good":      {"it is made again", "", nil, []string{"try ", "delete base", "create base"}, false, false, false},
		"Refused":   {"it stays where the next is refused", "try", apierrors.NewForbidden(quotas, "base", errors.New("no")), []string{"try "}, true, true, false},
		"Overtaken": {"somebody else has made it anew", "delete", apierrors.NewConflict(quotas, "base", errors.New("another UID")), []string{"try ", "delete base"}, true, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			config := platform(openmcpv1alpha1.ModeCumulative, "pods=1")
			w := newWorld(t, config)
			w.settled()
			config.Spec.Quotas[0].Template.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			config.Generation++
			if err := w.Client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			w.reject = func(verb string, object client.Object) error {
				if _, is := object.(*corev1.ResourceQuota); is && verb == tt.verb {
					return tt.err
				}
				return nil
			}
			result, err := w.reconcile()
			if diff := cmp.Diff(tt.writes, w.writes); diff != "" {
				t.Errorf("%s: writes (-want +got):\n%s", tt.reason, diff)
			}
			if (err != nil) != tt.fails || (result.RequeueAfter == outdatedDelay) != tt.again {
				t.Errorf("%s: got %v and %+v", tt.reason, err, result)
			}
			if said := w.outcomes.all()[team].message; said != "" && !tt.fails {
				t.Errorf("%s: it says %q", tt.reason, said)
			}
			quota, err := w.storedQuota(t.Context(), team, "base")
			if err != nil || quota == nil || (len(quota.Spec.Scopes) == 0) != tt.isKept {
				t.Errorf("%s: there is %+v and %v", tt.reason, quota, err)
			}
		})
	}
}

// exceeds denies ResourceQuotas with more secrets than most, as an allocation does.
func exceeds(most string) func(string, client.Object) error {
	const name = corev1.ResourceName("count/secrets")
	limit := amounts("a=" + most)["a"]
	return func(_ string, object client.Object) error {
		quota, is := object.(*corev1.ResourceQuota)
		if asked := corev1.ResourceList(nil); is {
			if asked = quota.Spec.Hard; limit.Cmp(asked[name]) < 0 {
				amount := asked[name]
				err := apierrors.NewForbidden(quotas, quota.Name, errors.New("exceeded"))
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{
					Type: quotav1alpha1.CauseAllocationExceeded, Field: "spec.hard[count/secrets]", Message: fmt.Sprintf("exceeded, requested: %s", amount.String()),
				}}
				return err
			}
		}
		return nil
	}
}

// Under a cap a second write suffices, however many increases there are, if the cache knows the room. The cache is only
// a hint.
func TestHoldBackAtOnce(t *testing.T) {
	const most = 20
	tests := map[string]struct {
		reason string
		known  string
		writes int
		want   string
	}{
		"Known":   {"the cache knows", "20", 2, "count/secrets=20"},
		"Unknown": {"it knows nothing", "", 31, "count/secrets=20"},
		"TooHigh": {"it knows too much", "25", 7, "count/secrets=20"},
		"TooLow":  {"it knows too little, until it is told", "15", 2, "count/secrets=15"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{platform(openmcpv1alpha1.ModeCumulative, "count/secrets=10")}
			for i := range 40 {
				objects = append(objects, quotaIncrease(fmt.Sprintf("increase-%02d", i), "count/secrets=1"))
			}
			if tt.known != "" {
				objects = append(objects, &quotav1alpha1.LocalResourceQuotaAllocation{
					ObjectMeta: metav1.ObjectMeta{Name: "cap", Namespace: team},
					Status:     quotav1alpha1.LocalResourceQuotaAllocationStatus{Available: amounts("count/secrets=" + tt.known)},
				})
			}
			w := newWorld(t, objects...)
			w.reject = exceeds(fmt.Sprint(most))
			result := w.settled()
			w.wantHard(tt.reason, "base", tt.want)
			if len(w.writes) != tt.writes {
				t.Errorf("%s: it took %d writes, want %d", tt.reason, len(w.writes), tt.writes)
			}
			if after := result.RequeueAfter; after < heldBackRetry || after > 2*heldBackRetry {
				t.Errorf("%s: it is tried again after %s, want about %s", tt.reason, after, heldBackRetry)
			}
			if !w.outcomes.isHeldBack(team) {
				t.Errorf("%s: what is held back is not known to be", tt.reason)
			}
		})
	}
}
