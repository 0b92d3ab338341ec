package adoption

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// SetAdopted sets the condition Adopted of a policy by its status.adoption, for users to wait on. A never effective
// policy has none.
func SetAdopted(policy *quotav1alpha1.ClaimCreationPolicy) {
	a := policy.Status.Adoption
	if a == nil {
		apimeta.RemoveStatusCondition(&policy.Status.Conditions, quotav1alpha1.ConditionAdopted)
		return
	}
	condition := metav1.Condition{
		Type: quotav1alpha1.ConditionAdopted, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonAdoptionRunning,
		Message: "Bursar is processing existing objects; status.adoption shows the progress", ObservedGeneration: policy.Generation,
	}
	if a.State == quotav1alpha1.AdoptionComplete && a.ObservedGeneration == policy.Generation {
		condition.Status, condition.Reason = metav1.ConditionTrue, quotav1alpha1.ReasonAdoptionComplete
		condition.Message = "Bursar has processed every existing object"
		switch {
		case a.Failed > 0:
			condition.Message += fmt.Sprintf("; the policy could not be applied to %d: %s", a.Failed, a.Message)
		case a.Message != "":
			condition.Message = a.Message
		}
	}
	apimeta.SetStatusCondition(&policy.Status.Conditions, condition)
}

// readyOf returns the condition Ready of a policy, or nil.
func readyOf(policy *quotav1alpha1.ClaimCreationPolicy) *metav1.Condition {
	return apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady)
}
