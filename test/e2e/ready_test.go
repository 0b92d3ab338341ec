package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// TestReadyHoldsWhileAnotherPolicyGoes deletes the only policy for a kind and makes another one at once. Meanwhile
// Bursar may still be removing the kind from the API server's webhooks. A new policy enforces as soon as it is Ready.
func TestReadyHoldsWhileAnotherPolicyGoes(t *testing.T) {
	t.Parallel()
	const group, kind = "turns.example.com", "Widget"
	w := &world{T: t, ctx: t.Context(), name: "turns"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	w.mustCreate(platform.Definition(group, kind, "widgets"))
	registration := w.registration(w.resourceType())
	registration.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{APIGroup: group, Kind: kind}}
	w.mustCreate(registration)
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.grant("base", 0)
	for i := range 30 {
		policy := w.policy(fmt.Sprint(w.name, "-", i), func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: group + "/v1", Kind: kind}
			p.Spec.Trigger.Conditions = nil
		})
		for range 5 {
			widget := &unstructured.Unstructured{}
			widget.SetAPIVersion(group + "/v1")
			widget.SetKind(kind)
			widget.SetName("a")
			w.wantExceeded(widget)
		}
		w.mustDelete(policy)
	}
}
