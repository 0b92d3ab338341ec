package progress_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/kube/progress"
)

// compute returns the status of a new object by kstatus.
func compute(t *testing.T, objectStatus any) status.Status {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "generation": int64(1)}, "status": objectStatus,
	}}
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// TestNewObjects computes the status of an object that nobody has processed, for each kind with conditions: by its
// default in the definition it is not Current.
func TestNewObjects(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, definition := range all {
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
		if _, hasConditions := schema.Properties["conditions"]; !hasConditions {
			continue
		}
		found++
		if schema.Default == nil {
			t.Errorf("%s has no default status", definition.Spec.Names.Kind)
			continue
		}
		var byDefault map[string]any
		if err := json.Unmarshal(schema.Default.Raw, &byDefault); err != nil {
			t.Fatal(err)
		}
		byDefault["observedGeneration"] = int64(byDefault["observedGeneration"].(float64))
		if got := compute(t, byDefault); got != status.InProgressStatus {
			t.Errorf("a new %s is %s, want InProgress", definition.Spec.Names.Kind, got)
		}
	}
	if found == 0 {
		t.Error("no kind has conditions")
	}
}

// TestStates computes the status of an object in each state.
func TestStates(t *testing.T) {
	for state, want := range map[progress.State]status.Status{
		progress.Reached: status.CurrentStatus, progress.Waiting: status.InProgressStatus, progress.Stalled: status.FailedStatus,
	} {
		var conditions []metav1.Condition
		progress.Set(&conditions, state, metav1.Condition{Type: "Active", Reason: "CapReached", Message: "no room", ObservedGeneration: 1})

		var stored []any
		for _, c := range conditions {
			stored = append(stored, map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message})
		}
		if got := compute(t, map[string]any{"observedGeneration": int64(1), "conditions": stored}); got != want {
			t.Errorf("state %q is %s, want %s", state, got, want)
		}
	}
}

// TestSet follows one object through all states.
func TestSet(t *testing.T) {
	active := metav1.Condition{Type: "Active", Status: metav1.ConditionFalse, Reason: "CapReached", Message: "no room", ObservedGeneration: 3}
	as := func(of string) metav1.Condition {
		c := active
		c.Type, c.Status = of, metav1.ConditionTrue
		return c
	}
	conditions := []metav1.Condition{active}
	for _, step := range []struct {
		reason string
		state  progress.State
		want   []metav1.Condition
	}{
		{"an object in order has neither", progress.Reached, []metav1.Condition{active}},
		{"the cause explains the wait", progress.Waiting, []metav1.Condition{active, as("Reconciling")}},
		{"one state replaces the other", progress.Stalled, []metav1.Condition{active, as("Stalled")}},
		{"and the other way round", progress.Waiting, []metav1.Condition{active, as("Reconciling")}},
		{"nothing stays", progress.Reached, []metav1.Condition{active}},
	} {
		progress.Set(&conditions, step.state, active)

		if diff := cmp.Diff(step.want, conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
	}
}
