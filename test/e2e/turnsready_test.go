package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// wantInvalid waits until a policy is not Ready, with the problem in its message.
func (w *world) wantInvalid(policy client.Object, problem string) {
	w.Helper()
	eventually(w, func() error {
		condition := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
		if condition.Reason != quotav1alpha1.ReasonValidationFailed || !strings.Contains(condition.Message, problem) {
			return fmt.Errorf("the condition of %s is %+v, want reason %s and a message with %q", policy.GetName(), condition, quotav1alpha1.ReasonValidationFailed, problem)
		}
		return nil
	})
}

// A policy for a kind outside the registration denies the kind's objects until the registration lists the kind.
func TestPolicyTurnsApplicableWhenItsKindMayClaim(t *testing.T) {
	t.Parallel()
	w := newWorldFor(t, quotav1alpha1.ClaimingResource{Kind: "Secret"})
	w.grant("base", 1)
	policy := w.newPolicy(w.name)
	w.mustCreate(policy)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionFalse)
	if err := admin.Create(w.ctx, w.configMap("early")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not be claimed by ConfigMap") {
		t.Errorf("got %v, want a denial that says that ConfigMaps may not claim", err)
	}
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	w.update(registration, func() {
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "ConfigMap"})
	})
	w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionTrue)
	w.mustCreate(w.configMap("a"))
	w.wantExceeded(w.configMap("b"))
}

// Policies with consumers of another kind than the registered one become effective once a registration for their kind
// replaces the other.
func TestPoliciesTurnReadyWithTheRightConsumerType(t *testing.T) {
	t.Parallel()
	const group, kind = "other-consumers.example.com", "Team"
	w := &world{T: t, ctx: t.Context(), name: "right-consumer-type"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	right := w.registration(w.resourceType())
	w.cleanUp(right) // after its dependents
	w.mustCreate(platform.Definition(group, kind, "teams"))
	wrong := w.registration(w.resourceType())
	wrong.Name += "-wrong"
	wrong.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: group, Kind: kind}
	w.mustCreate(wrong)
	w.waitCondition(wrong, quotav1alpha1.ConditionActive, metav1.ConditionTrue)

	claims, grants := w.newPolicy(w.name), w.grantPolicy(nil)
	w.mustCreate(claims)
	w.mustCreate(grants)
	const problem = "is granted to Team.other-consumers.example.com, not to Organization.platform.example.com"
	w.wantInvalid(claims, problem)
	w.wantInvalid(grants, problem)

	w.mustDelete(wrong)
	w.liftFinalizers(wrong)
	w.wantInvalid(claims, "has no active ResourceRegistration")
	if err := admin.Create(w.ctx, right); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(claims, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.waitCondition(grants, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.wantExceeded(w.configMap("a"))
}
