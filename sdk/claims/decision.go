package claims

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// State is what became of a request.
type State int

const (
	// Pending means that it is not decided yet.
	Pending State = iota
	// Granted means that the object may be provisioned.
	Granted
	// Exceeded means that there is not enough quota. It is granted by itself once there is.
	Exceeded
	// Invalid means that it cannot be decided as it is, which is for the platform to put right.
	Invalid
)

// Decision is what became of a request. The zero value is one that is not decided yet.
type Decision struct {
	State State
	// Message says why, in a sentence for the owner of the object.
	Message string
	// Resize says why a granted object has other amounts than are asked for now. It is nil for one that has those.
	Resize *Resize
	// Claim is what it is taken from, or nil.
	Claim *quotav1alpha1.ResourceClaim
}

// Resize is what became of a change to the amounts that a granted object has. It is Pending, Exceeded or Invalid, which
// mean of the change what they mean of a request.
type Resize struct {
	State   State
	Message string
}

// IsGranted tells whether the object may be provisioned.
func (d Decision) IsGranted() bool { return d.State == Granted }

// Held returns the amounts that the object may use now: those that were asked for or, while a change has to wait, those
// from before.
func (d Decision) Held() []quotav1alpha1.ResourceRequest {
	if !d.IsGranted() || d.Claim == nil {
		return nil
	}
	return d.Claim.Spec.Requests
}

// DecisionOf returns what a claim says. nil is one that is not there yet.
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

// stateOf returns what a claim came to that is not granted for that reason, or not resized.
func stateOf(reason string) State {
	if reason == quotav1alpha1.ReasonQuotaExceeded {
		return Exceeded
	}
	return Invalid
}

// resizeOf returns what became of a change to what a granted claim holds, or nil if there is none.
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

// denials are what is said of the requests that do not fit.
func denials(claim *quotav1alpha1.ResourceClaim) (messages []string) {
	for _, allocation := range claim.Status.Allocations {
		if allocation.Status == quotav1alpha1.AllocationDenied && allocation.Reason == quotav1alpha1.ReasonQuotaExceeded && allocation.Message != "" {
			messages = append(messages, allocation.Message)
		}
	}
	return messages
}
