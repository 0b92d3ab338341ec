package claims

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// claimWith returns a claim with the given condition, and messages for its requests.
func claimWith(status metav1.ConditionStatus, reason, message string, messages ...quotav1alpha1.RequestAllocation) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{Status: quotav1alpha1.ResourceClaimStatus{
		Conditions:  []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: status, Reason: reason, Message: message}},
		Allocations: messages,
	}}
}

func denied(resourceType, reason, message string) quotav1alpha1.RequestAllocation {
	return quotav1alpha1.RequestAllocation{ResourceType: resourceType, Status: quotav1alpha1.AllocationDenied, Reason: reason, Message: message}
}

// The reasons and messages are from the table in the document behind the compute service.
func TestConditions(t *testing.T) {
	waiting := metav1.Condition{Status: "False", Reason: "PendingQuota", Message: "Waiting for quota claim to be granted"}
	tests := map[string]struct {
		claim   *quotav1alpha1.ResourceClaim
		want    metav1.Condition
		granted bool
	}{
		"none":      {nil, metav1.Condition{Status: "Unknown", Reason: "PendingEvaluation", Message: pendingMessage}, false},
		"new":       {&quotav1alpha1.ResourceClaim{}, metav1.Condition{Status: "Unknown", Reason: "PendingEvaluation", Message: pendingMessage}, false},
		"undecided": {claimWith("False", "PendingEvaluation", "Awaiting capacity evaluation"), metav1.Condition{Status: "Unknown", Reason: "PendingEvaluation", Message: pendingMessage}, false},
		"granted":   {claimWith("True", "QuotaAvailable", "all is well"), metav1.Condition{Status: "True", Reason: "QuotaAvailable", Message: grantedMessage}, true},
		"exceeded": {
			claimWith("False", "QuotaExceeded", "the claim waits", denied("vcpus", "QuotaExceeded", "no vCPUs left"), denied("gpus", "QuotaAvailable", "for the sake of the others")),
			metav1.Condition{Status: "False", Reason: "QuotaExceeded", Message: "no vCPUs left"}, false,
		},
		"exceeded for two": {
			claimWith("False", "QuotaExceeded", "of two types", denied("vcpus", "QuotaExceeded", "no vCPUs left"), denied("memory", "QuotaExceeded", "no memory left")),
			metav1.Condition{Status: "False", Reason: "QuotaExceeded", Message: "of two types"}, false,
		},
		"exceeded without details": {claimWith("False", "QuotaExceeded", "too much"), metav1.Condition{Status: "False", Reason: "QuotaExceeded", Message: "too much"}, false},
		"invalid":                  {claimWith("False", "ValidationFailed", "no such type"), metav1.Condition{Status: "False", Reason: "ValidationFailed", Message: "no such type"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			decision := DecisionOf(tt.claim)
			if !decision.Set(&conditions, 3, "Programmed", "Ready") || decision.Set(&conditions, 3, "Programmed", "Ready") {
				t.Error("it is different once, and not again")
			}
			tt.want.Type = "QuotaGranted"
			want := []metav1.Condition{tt.want}
			if !tt.granted {
				for _, kind := range []string{"Programmed", "Ready"} {
					waiting.Type = kind
					want = append(want, waiting)
				}
			}
			for i := range want {
				want[i].ObservedGeneration = 3
			}
			if diff := cmp.Diff(want, conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if decision.IsGranted() != tt.granted {
				t.Errorf("it is granted: %t", decision.IsGranted())
			}
		})
	}
}

// The conditions written by others stay once the claim is granted.
func TestGrantedLeavesOthersAlone(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Up"}}
	DecisionOf(claimWith("True", "QuotaAvailable", "")).Set(&conditions, 1, "Ready")
	if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == "True" }) {
		t.Errorf("got %+v", conditions)
	}
}
