package claims

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// State is the state of a decision.
type State int

const (
	// Pending means that Bursar has not decided the request yet.
	Pending State = iota
	// Granted means that you may provision the object.
	Granted
	// Exceeded means that the quota does not suffice. Bursar grants the request as soon as it does.
	Exceeded
	// Invalid means that Bursar cannot decide the request as it is. An administrator of the platform has to correct the
	// cause.
	Invalid
)

// Decision is the decision on a request. The zero value is a pending decision.
type Decision struct {
	State State
	// Message is the reason, in a sentence for the owner of the object.
	Message string
	// Resize is the state of a requested resize. It is nil if the granted amounts are the requested ones.
	Resize *Resize
	// Claim is the claim behind the decision, or nil.
	Claim *quotav1alpha1.ResourceClaim
}

// Resize is the decision on a resize of a granted claim. Its State is Pending, Exceeded or Invalid.
type Resize struct {
	State   State
	Message string
}

// IsGranted reports whether you may provision the object.
func (d Decision) IsGranted() bool { return d.State == Granted }

// Held returns the amounts for the object now: the requested amounts or, while a resize is pending, the earlier ones.
func (d Decision) Held() []quotav1alpha1.ResourceRequest {
	if !d.IsGranted() || d.Claim == nil {
		return nil
	}
	return d.Claim.Spec.Requests
}

// DecisionOf returns the decision in the status of a claim. A nil claim does not exist yet.
func DecisionOf(claim *quotav1alpha1.ResourceClaim) Decision {
	d := Decision{Claim: claim, Message: pendingMessage}
	if claim == nil {
		return d
	}
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if granted == nil || granted.Reason == quotav1alpha1.ReasonPendingEvaluation {
		return d
	}
	d.Message = granted.Message
	if granted.Status == metav1.ConditionTrue {
		d.State, d.Resize = Granted, resizeOf(claim)
		return d
	}
	d.State = stateOf(granted.Reason)
	if messages := denials(claim); d.State == Exceeded && len(messages) == 1 {
		d.Message = messages[0]
	}
	return d
}

// stateOf returns the state for the reason of a condition: why Bursar did not grant or resize a claim.
func stateOf(reason string) State {
	if reason == quotav1alpha1.ReasonQuotaExceeded {
		return Exceeded
	}
	return Invalid
}

// resizeOf returns the decision on the requested resize of a granted claim, or nil if there is none.
func resizeOf(claim *quotav1alpha1.ResourceClaim) *Resize {
	requests := claim.ResizeRequests()
	if requests == nil || equality.Semantic.DeepEqual(requests, claim.Spec.Requests) {
		return nil
	}
	if messages := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionResizePending); messages != nil {
		return &Resize{State: stateOf(messages.Reason), Message: messages.Message}
	}
	return &Resize{Message: pendingMessage}
}

// denials returns the messages of the requests beyond the quota.
func denials(claim *quotav1alpha1.ResourceClaim) (messages []string) {
	for _, allocation := range claim.Status.Allocations {
		if allocation.Status == quotav1alpha1.AllocationDenied && allocation.Reason == quotav1alpha1.ReasonQuotaExceeded && allocation.Message != "" {
			messages = append(messages, allocation.Message)
		}
	}
	return messages
}
