package claimpolicy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
)

// quietTime is the time without a failed request before a successfully applied policy counts as applicable again.
const quietTime = 5 * time.Minute

// applicable returns the condition Applicable of a Ready policy, and the delay until it may change by itself, or 0.
func applicable(object *quotav1alpha1.ClaimCreationPolicy, claiming error, now time.Time) (*metav1.Condition, time.Duration) {
	status := object.Status.Evaluation
	if status != nil && status.ObservedGeneration != object.Generation {
		status = nil
	}
	if claiming != nil {
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonClaimNotAllowed, Message: claiming.Error() + denials(status)}, 0
	}
	if status == nil || status.LastFailureReason == quotav1alpha1.ReasonClaimNotAllowed {
		return &metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonPolicyApplicable,
			Message: "the policy can be applied to the objects of all requests so far"}, 0
	}
	failed := &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonEvaluationFailed,
		Message: "the policy cannot be applied to " + status.LastFailure + denials(status)}
	if status.LastSuccessTime == nil || !status.LastFailureTime.Before(status.LastSuccessTime) {
		return failed, 0
	}
	if wait := quietTime - now.Sub(status.LastFailureTime.Time); wait > 0 {
		return failed, wait
	}
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonPolicyApplicable,
		Message: fmt.Sprintf("the policy can be applied to the objects of all requests since %s%s",
			status.LastFailureTime.UTC().Format(time.RFC3339), denials(status))}, 0
}

// denials returns a sentence on the number of denied requests, or "" if there were none.
func denials(status *quotav1alpha1.EvaluationStatus) string {
	if status == nil || status.Failed == 0 {
		return ""
	}
	verb := "were"
	if status.Denied == 1 {
		verb = "was"
	}
	return fmt.Sprintf("; %d of %s that it could not be applied to %s denied, the last at %s",
		status.Denied, message.Count(status.Failed, "request", "requests"), verb, status.LastFailureTime.UTC().Format(time.RFC3339))
}
