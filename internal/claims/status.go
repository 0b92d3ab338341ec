package claims

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// Grant records in the claim's status the grant of all its requests. Tests of platforms compare the message of the
// condition as a whole, so it has no more than the number of requests.
func Grant(claim *quotav1alpha1.ResourceClaim, registrations *catalog.Catalog, now time.Time) {
	setGranted(claim, progress.Reached, quotav1alpha1.ReasonQuotaAvailable,
		fmt.Sprintf("All %d resource requests have been granted", len(claim.Spec.Requests)))
	claim.Status.Requested = message.Requests(registrations, claim.Spec.Requests)
	setAllocations(claim, now, func(request quotav1alpha1.ResourceRequest, a *quotav1alpha1.RequestAllocation) {
		bucket := naming.Bucket(claim.Spec.ConsumerRef, request.ResourceType, request.Dimensions)
		a.Status = quotav1alpha1.AllocationGranted
		a.Reason = quotav1alpha1.ReasonQuotaAvailable
		a.AllocatedAmount = request.Amount
		a.AllocatingBucket = bucket
		if r := registrations.Registration(request.ResourceType); r != nil {
			a.Message = "allocated " + message.Amount(ledger.Amount(request.Amount), r) + " from bucket " + bucket
		}
	})
}

// Deny records in the claim's status that quota falls short. The claim stays. Bursar decides it again when capacity
// appears.
func Deny(claim *quotav1alpha1.ResourceClaim, registrations *catalog.Catalog, shortages []ledger.Shortage, now time.Time) {
	consumer := claim.Spec.ConsumerRef
	setGranted(claim, progress.Waiting, quotav1alpha1.ReasonQuotaExceeded,
		message.Waits(registrations, consumer, shortages))
	claim.Status.Requested = message.Requests(registrations, claim.Spec.Requests)
	setAllocations(claim, now, func(request quotav1alpha1.ResourceRequest, a *quotav1alpha1.RequestAllocation) {
		a.Status = quotav1alpha1.AllocationDenied
		a.Reason = quotav1alpha1.ReasonQuotaExceeded
		a.Message = "not allocated, because another request of this claim exceeds its quota"
		for _, s := range shortages {
			if s.ResourceType == request.ResourceType {
				a.Message = message.Exceeded(registrations, consumer, []ledger.Shortage{s})
			}
		}
	})
}

const waits = " The claim waits, and is granted by itself once there is room."

// DenyFull records in the claim's status that the ledger has no room for the claim. As for lack of quota, Bursar
// decides it again after a release.
func DenyFull(claim *quotav1alpha1.ResourceClaim, full *message.FullError, now time.Time) {
	setGranted(claim, progress.Waiting, quotav1alpha1.ReasonQuotaExceeded, full.Error()+"."+waits)
	setAllocations(claim, now, func(_ quotav1alpha1.ResourceRequest, a *quotav1alpha1.RequestAllocation) {
		a.Status = quotav1alpha1.AllocationDenied
		a.Reason = quotav1alpha1.ReasonQuotaExceeded
		a.Message = full.Error()
	})
}

// SetResizePending records in a granted claim's status why its resize is pending.
func SetResizePending(claim *quotav1alpha1.ResourceClaim, reason, message string) {
	pending := metav1.Condition{
		Type: quotav1alpha1.ConditionResizePending, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: claim.Generation,
	}
	apimeta.SetStatusCondition(&claim.Status.Conditions, pending)
	progress.Set(&claim.Status.Conditions, progress.Waiting, pending)
}

// ClearResizePending records in a granted claim's status that no resize is pending.
func ClearResizePending(claim *quotav1alpha1.ResourceClaim) {
	apimeta.RemoveStatusCondition(&claim.Status.Conditions, quotav1alpha1.ConditionResizePending)
	progress.Set(&claim.Status.Conditions, progress.Reached, metav1.Condition{})
}

// Reject records in the claim's status that no decision is possible, and why. In the state [progress.Waiting] a changed
// registration may permit one.
func Reject(claim *quotav1alpha1.ResourceClaim, state progress.State, reason string, now time.Time) {
	setGranted(claim, state, quotav1alpha1.ReasonValidationFailed, reason)
	claim.Status.Requested = message.Requests(nil, claim.Spec.Requests)
	setAllocations(claim, now, func(_ quotav1alpha1.ResourceRequest, a *quotav1alpha1.RequestAllocation) {
		a.Status = quotav1alpha1.AllocationDenied
		a.Reason = quotav1alpha1.ReasonValidationFailed
		a.Message = reason
	})
}

// setGranted sets the condition Granted, which is True in the state [progress.Reached] only.
func setGranted(claim *quotav1alpha1.ResourceClaim, state progress.State, reason, message string) {
	claim.Status.ObservedGeneration = claim.Generation
	if c := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted); c != nil && c.LastTransitionTime.Unix() == 0 {
		// This is the default of the schema. Nothing happened at its time.
		apimeta.RemoveStatusCondition(&claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	}

	granted := metav1.Condition{
		Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: claim.Generation,
	}
	if state == progress.Reached {
		granted.Status = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(&claim.Status.Conditions, granted)
	progress.Set(&claim.Status.Conditions, state, granted)
}

// setAllocations sets the entry of every request. Unchanged entries keep their time.
func setAllocations(claim *quotav1alpha1.ResourceClaim, now time.Time, fill func(quotav1alpha1.ResourceRequest, *quotav1alpha1.RequestAllocation)) {
	before := claim.Status.Allocations
	claim.Status.Allocations = make([]quotav1alpha1.RequestAllocation, 0, len(claim.Spec.Requests))
	for _, request := range claim.Spec.Requests {
		a := quotav1alpha1.RequestAllocation{ResourceType: request.ResourceType, LastTransitionTime: metav1.NewTime(now)}
		fill(request, &a)
		for _, old := range before {
			since := old.LastTransitionTime
			old.LastTransitionTime = a.LastTransitionTime
			if old == a {
				a.LastTransitionTime = since
			}
		}
		claim.Status.Allocations = append(claim.Status.Allocations, a)
	}
}
