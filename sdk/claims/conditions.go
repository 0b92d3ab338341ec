package claims

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// ConditionQuotaGranted is the condition of an object with quota. It is Unknown with reason PendingEvaluation, True
	// with QuotaAvailable, or False with QuotaExceeded or ValidationFailed.
	ConditionQuotaGranted = "QuotaGranted"

	// ConditionQuotaResizePending is True on an object with quota while a resize of its claim is pending. Its reason is
	// PendingEvaluation, QuotaExceeded or ValidationFailed. Otherwise the condition is absent.
	ConditionQuotaResizePending = "QuotaResizePending"

	// ReasonPendingQuota is the reason of the conditions set to False by [Decision.Set] while an object has no quota.
	ReasonPendingQuota = "PendingQuota"

	pendingMessage = "the quota claim awaits evaluation"
	waitingMessage = "Waiting for quota claim to be granted"
	grantedMessage = "quota is allocated"

	releasedMessage = "the former quota claim is being released"
)

// Condition returns the decision as the condition [ConditionQuotaGranted].
func (d Decision) Condition(generation int64) metav1.Condition {
	c := metav1.Condition{Type: ConditionQuotaGranted, ObservedGeneration: generation, Status: metav1.ConditionFalse, Message: d.Message}
	switch c.Reason = d.State.reason(); d.State {
	case Granted:
		c.Status, c.Message = metav1.ConditionTrue, grantedMessage
	case Pending:
		c.Status = metav1.ConditionUnknown
	}
	return c
}

// reason returns the reason of the condition for a state.
func (s State) reason() string {
	switch s {
	case Granted:
		return quotav1alpha1.ReasonQuotaAvailable
	case Exceeded:
		return quotav1alpha1.ReasonQuotaExceeded
	case Invalid:
		return quotav1alpha1.ReasonValidationFailed
	default:
		return quotav1alpha1.ReasonPendingEvaluation
	}
}

// Set writes the decision into the conditions of an object: [ConditionQuotaGranted], and [ConditionQuotaResizePending]
// while a resize is pending. While the claim is not granted, it also sets the conditions named by waiting to False.
// Once the claim is granted, it no longer writes these, so set them yourself. It reports whether any condition changed.
func (d Decision) Set(conditions *[]metav1.Condition, generation int64, waiting ...string) (isChanged bool) {
	isChanged = apimeta.SetStatusCondition(conditions, d.Condition(generation))
	if d.Resize == nil {
		isChanged = apimeta.RemoveStatusCondition(conditions, ConditionQuotaResizePending) || isChanged
	} else {
		isChanged = apimeta.SetStatusCondition(conditions, metav1.Condition{
			Type: ConditionQuotaResizePending, Status: metav1.ConditionTrue, ObservedGeneration: generation, Reason: d.Resize.State.reason(), Message: d.Resize.Message,
		}) || isChanged
	}
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
