package adoption

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// One write has the end of a scan and the condition for users to wait on. It leaves the other conditions as they are.
func TestEndOfScanIsOneWrite(t *testing.T) {
	b := newBench(t, onePage("map"), nil)
	policy := b.stored()
	apimeta.SetStatusCondition(&policy.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "PolicyReady"})
	if err := b.Client.Status().Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %t, %v", complete, err)
	}
	conditions := b.stored().Status.Conditions
	for _, name := range []string{quotav1alpha1.ConditionReady, quotav1alpha1.ConditionAdopted} {
		if !apimeta.IsStatusConditionTrue(conditions, name) {
			t.Errorf("the condition %s is not true: %+v", name, conditions)
		}
	}
	if b.writes != 1 {
		t.Errorf("the status was written %d times, want once", b.writes)
	}
}

// The end of a scan reaches the status, and somebody else's change of a condition in the meantime stays.
func TestEndOfScanBesideAnotherChange(t *testing.T) {
	b := newBench(t, onePage("map"), nil)
	b.changeBeforeWrite = func(policy *quotav1alpha1.ClaimCreationPolicy) {
		apimeta.SetStatusCondition(&policy.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Changed"})
	}
	if complete, err := b.scan(); !complete || err != nil {
		t.Fatalf("the scan is complete: %t, %v", complete, err)
	}
	policy := b.stored()
	if ready := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady); ready == nil || ready.Reason != "Changed" {
		t.Errorf("the change is lost: %+v", policy.Status.Conditions)
	}
	if policy.Status.Adoption == nil || policy.Status.Adoption.State != quotav1alpha1.AdoptionComplete {
		t.Errorf("the end of the scan is lost: %+v", policy.Status.Adoption)
	}
}
