package quotarequest

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
)

// setApproved sets the condition Approved.
func setApproved(request *quotav1alpha1.QuotaRequest, reason, text string) {
	status, state := metav1.ConditionFalse, progress.Stalled
	switch reason {
	case quotav1alpha1.ReasonPending:
		status, state = metav1.ConditionUnknown, progress.Waiting
	case quotav1alpha1.ReasonApproved, quotav1alpha1.ReasonPartiallyApproved:
		status, state = metav1.ConditionTrue, progress.Reached
	case quotav1alpha1.ReasonWithdrawn:
		state = progress.Reached // as its spec says
	}

	approved := metav1.Condition{
		Type: quotav1alpha1.ConditionApproved, Status: status, Reason: reason, Message: text, ObservedGeneration: request.Generation,
	}
	apimeta.SetStatusCondition(&request.Status.Conditions, approved)
	progress.Set(&request.Status.Conditions, state, approved)
	request.Status.ObservedGeneration = request.Generation
}
