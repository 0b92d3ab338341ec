package claims

import (
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// State is what became of a request.
type State int

const (
	// Pending: it is not decided yet.
	Pending State = iota
	// Granted: the object may be provisioned.
	Granted
	// Exceeded: there is not enough quota. It is granted by itself once there is.
	Exceeded
	// Invalid: it cannot be decided as it is, which is for the platform to put right.
	Invalid
)

// Decision is what became of a request. The zero value is one that is not decided yet.
type Decision struct {
	State State
	// Message says why, in a sentence for the owner of the object.
	Message string
	// Claim is what it is taken from, or nil.
	Claim *quotav1alpha1.ResourceClaim
}

// IsGranted tells whether the object may be provisioned.
func (d Decision) IsGranted() bool { return d.State == Granted }

// DecisionOf returns what a claim says. nil is one that is not there yet.
func DecisionOf(claim *quotav1alpha1.ResourceClaim) Decision {
	d := Decision{Claim: claim, Message: pendingMessage}
	if claim == nil {
		return d
	}
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	switch {
	case granted == nil || granted.Reason == quotav1alpha1.ReasonPendingEvaluation:
		return d
	case granted.Status == metav1.ConditionTrue:
		d.State = Granted
	case granted.Reason == quotav1alpha1.ReasonQuotaExceeded:
		d.State = Exceeded
	default:
		d.State = Invalid
	}
	d.Message = granted.Message
	if said := denials(claim); d.State == Exceeded && said != "" {
		d.Message = said
	}
	return d
}

// denials joins what is said of the requests that do not fit.
func denials(claim *quotav1alpha1.ResourceClaim) string {
	var said []string
	for _, allocation := range claim.Status.Allocations {
		if allocation.Status == quotav1alpha1.AllocationDenied && allocation.Reason == quotav1alpha1.ReasonQuotaExceeded && allocation.Message != "" {
			said = append(said, allocation.Message)
		}
	}
	return strings.Join(said, "; ")
}
