package claims

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// ConditionQuotaGranted says of an object whether it has the quota that it needs. It is Unknown with reason
	// PendingEvaluation, True with QuotaAvailable, or False with QuotaExceeded or ValidationFailed.
	ConditionQuotaGranted = "QuotaGranted"

	// ReasonPendingQuota is the reason of those conditions of an object that are False because it has no quota yet.
	ReasonPendingQuota = "PendingQuota"

	pendingMessage = "the quota claim awaits evaluation"
	waitingMessage = "Waiting for quota claim to be granted"
	grantedMessage = "quota is allocated"
)

// Condition is what the decision says of an object: the condition [ConditionQuotaGranted].
func (d Decision) Condition(generation int64) metav1.Condition {
	c := metav1.Condition{Type: ConditionQuotaGranted, ObservedGeneration: generation, Status: metav1.ConditionFalse, Message: d.Message}
	switch d.State {
	case Granted:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, quotav1alpha1.ReasonQuotaAvailable, grantedMessage
	case Exceeded:
		c.Reason = quotav1alpha1.ReasonQuotaExceeded
	case Invalid:
		c.Reason = quotav1alpha1.ReasonValidationFailed
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, quotav1alpha1.ReasonPendingEvaluation
	}
	return c
}

// Set enters the decision into the conditions of an object: [ConditionQuotaGranted] and, while nothing is granted,
// those that wait for it, which are False then. Once it is granted these are left to whoever brings them about. It
// tells whether anything is different.
func (d Decision) Set(conditions *[]metav1.Condition, generation int64, waiting ...string) (isChanged bool) {
	isChanged = apimeta.SetStatusCondition(conditions, d.Condition(generation))
	if d.IsGranted() {
		return isChanged
	}
	for _, kind := range waiting {
		isChanged = apimeta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: generation, Reason: ReasonPendingQuota, Message: waitingMessage,
		}) || isChanged
	}
	return isChanged
}
