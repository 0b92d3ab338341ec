package resourcequota

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// remove asks to delete a ResourceQuota.
func remove(t testing.TB, quota *corev1.ResourceQuota) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Namespace: "web", Name: "default", OldObject: runtime.RawExtension{Raw: encode(t, quota)},
	}
}

func TestLeavingTheCap(t *testing.T) {
	for name, tt := range map[string]struct {
		reason  string
		request func(t testing.TB) *admissionv1.AdmissionRequest
		user    string
		permit  func(*quotav1alpha1.ResourceQuotaAllocation)
		denied  bool
	}{
		"drop": {"nothing would limit it any more", func(t testing.TB) *admissionv1.AdmissionRequest { return update(t, quotaOf("pods=5"), quotaOf()) }, "olga", nil, true},
		"exchange": {"something else limits something else", func(t testing.TB) *admissionv1.AdmissionRequest {
			return update(t, quotaOf("pods=5"), quotaOf("services=9"))
		}, "olga", nil, true},
		"delete":                      {"the same in one request", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "olga", nil, true},
		"garbage collection":          {"whoever writes an object says what owns it", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "system:serviceaccount:kube-system:generic-garbage-collector", nil, true},
		"Bursar as garbage collector": {"as on a standalone server", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "bursar", nil, true},
		"Bursar for a definition": {"another definition is for the namespace now", func(t testing.TB) *admissionv1.AdmissionRequest {
			quota := quotaOf("pods=5")
			quota.Labels = map[string]string{"quota.openmcp.cloud/managed-by": "platform", "quota.openmcp.cloud/quota-definition": "default"}
			return remove(t, quota)
		}, "bursar", nil, false},
		"Bursar lowers": {"the definition names it no longer", func(t testing.TB) *admissionv1.AdmissionRequest { return update(t, quotaOf("pods=5"), quotaOf()) }, "bursar", nil, false},
		"editor":        {"who may change the cap may do this", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "editor", nil, false},
		"zero": {"it limits more than before", func(t testing.TB) *admissionv1.AdmissionRequest {
			return update(t, quotaOf("pods=5"), quotaOf("pods=0"))
		}, "olga", nil, false},
		"not capped": {"the cap does not name it", func(t testing.TB) *admissionv1.AdmissionRequest {
			return update(t, quotaOf("pods=5", "services=9"), quotaOf("pods=5"))
		}, "olga", nil, false},
		"permitted": {"the allocation says so", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "olga",
			func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Spec.MayLeave = true }, false},
		"other scopes": {"it does not count", func(t testing.TB) *admissionv1.AdmissionRequest { return remove(t, quotaOf("pods=5")) }, "olga",
			func(a *quotav1alpha1.ResourceQuotaAllocation) {
				a.Spec.Allocation.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
			}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			object := &quotav1alpha1.ResourceQuotaAllocation{
				ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "acme", Generation: 1},
				Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
					Selector: metav1.LabelSelector{MatchLabels: team}, Allocation: corev1.ResourceQuotaSpec{Hard: list("pods=10")},
				},
			}
			if tt.permit != nil {
				tt.permit(object)
			}
			w.declare(object)
			request := tt.request(t)
			request.UserInfo.Username = tt.user
			answer := w.review(request)
			if !tt.denied {
				w.wantAllowed(answer)
				return
			}
			w.wantStatus(answer, http.StatusForbidden, "ResourceQuotaAllocation acme caps pods, and without ResourceQuota default it may be unlimited in namespace web. Keep the resource and lower its amount instead")
			want := []metav1.StatusCause{{Type: quotav1alpha1.CauseAllocationLeft, Field: "spec.hard[pods]",
				Message: "ResourceQuotaAllocation acme caps pods, and without ResourceQuota default it may be unlimited in namespace web"}}
			if diff := cmp.Diff(want, answer.Result.Details.Causes); diff != "" {
				t.Errorf("%s: causes (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// A ResourceQuota deleted with its namespace does not leave a cap.
func TestNamespaceThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.allocation("acme", "pods=10")
	live := w.handler.Namespaces
	w.handler.Namespaces = namespaces(func() (*metav1.PartialObjectMetadata, error) {
		namespace, err := live.Get(t.Context(), "web")
		now := metav1.Now()
		namespace.DeletionTimestamp = &now
		return namespace, err
	})
	request := remove(t, quotaOf("pods=5"))
	request.UserInfo.Username = "system:kube-controller-manager"
	w.wantAllowed(w.review(request))
}
