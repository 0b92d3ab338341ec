package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bursar/bursar/api/quota/v1alpha1"
)

// TestClaimStatusDefault creates a claim with the empty status of the Go type. Its columns show it as waiting for a
// decision.
func TestClaimStatusDefault(t *testing.T) {
	schema := newSchema(t, "ResourceClaim")
	object := content(t, sampleClaim())
	if errs := schema.Admit(t.Context(), object, nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	claim := decode[v1alpha1.ResourceClaim](t, object)
	want := []metav1.Condition{{
		Type:               v1alpha1.ConditionGranted,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonPendingEvaluation,
		Message:            "Awaiting capacity evaluation",
		LastTransitionTime: metav1.Unix(0, 0),
	}}
	if diff := cmp.Diff(want, claim.Status.Conditions); diff != "" {
		t.Errorf("conditions of a new claim (-want +got):\n%s", diff)
	}
}

// TestPendingDefaults checks the status of new grants and registrations: it is pending.
func TestPendingDefaults(t *testing.T) {
	tests := map[string]struct {
		kind, reason string
		object       runtime.Object
		status       metav1.ConditionStatus
	}{
		"Grant":        {"ResourceGrant", v1alpha1.ReasonGrantPending, sampleGrant(), metav1.ConditionUnknown},
		"Registration": {"ResourceRegistration", v1alpha1.ReasonRegistrationPending, sampleRegistration(), metav1.ConditionFalse},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := content(t, tt.object)
			if errs := newSchema(t, tt.kind).Admit(t.Context(), object, nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}

			got := decode[struct {
				Status struct {
					Conditions         []metav1.Condition `json:"conditions"`
					ObservedGeneration int64              `json:"observedGeneration"`
				} `json:"status"`
			}](t, map[string]any{"status": object["status"]})
			want := []metav1.Condition{{
				Type: v1alpha1.ConditionActive, Status: tt.status, Reason: tt.reason,
				Message: "Not reconciled yet", LastTransitionTime: metav1.Unix(0, 0),
			}}
			if diff := cmp.Diff(want, got.Status.Conditions); diff != "" {
				t.Errorf("conditions of a new %s (-want +got):\n%s", tt.kind, diff)
			}
			if got.Status.ObservedGeneration != -1 {
				t.Errorf("the observed generation of a new %s is %d, want -1", tt.kind, got.Status.ObservedGeneration)
			}
		})
	}
}

func TestPolicyEnabledDefault(t *testing.T) {
	off := false
	tests := map[string]struct {
		reason  string
		enabled *bool
		want    bool
	}{
		"Absent": {reason: "policies are on unless they say otherwise", want: true},
		"False":  {reason: "false is kept, not taken for absent", enabled: &off, want: false},
	}

	schema := newSchema(t, "ClaimCreationPolicy")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sample := sampleClaimPolicy()
			sample.Spec.Enabled = tt.enabled
			if got := sample.IsEnabled(); got != tt.want {
				t.Errorf("%s: IsEnabled() = %t before defaulting", tt.reason, got)
			}
			object := content(t, sample)
			if errs := schema.Admit(t.Context(), object, nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			stored := decode[v1alpha1.ClaimCreationPolicy](t, object)
			if stored.Spec.Enabled == nil || *stored.Spec.Enabled != tt.want {
				t.Errorf("%s: stored as %v, want %t", tt.reason, stored.Spec.Enabled, tt.want)
			}
		})
	}
}

// TestLedgerIsStoredWhole proves that the API server keeps every field of a ledger without a schema for it.
func TestLedgerIsStoredWhole(t *testing.T) {
	typeMeta, objectMeta := sampleMeta("ConsumerLedger")
	dimensions := map[string]string{"example.com/location": "DFW"}
	want := &v1alpha1.ConsumerLedger{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.ConsumerLedgerSpec{
			ConsumerRef: sampleConsumer(),
			Format:      v1alpha1.ConsumerLedgerFormat,
			Sequence:    7,
			Grants: []v1alpha1.LedgerGrant{{
				UID: "a", Namespace: "web", Name: "base", Generation: 2,
				Allowances: []v1alpha1.LedgerAllowance{{
					ResourceType: "type-0", Amount: 10,
					DimensionSelector: &metav1.LabelSelector{MatchLabels: dimensions},
				}},
			}},
			Observations: []v1alpha1.LedgerObservation{{
				Kind: "pods", ObjectsVersion: 5, NamespacesVersion: 3, PoliciesVersion: 4,
				Demands: []v1alpha1.LedgerDemand{{ResourceType: "type-0", Dimensions: dimensions, Amount: 4, Objects: 2}},
			}},
			Reservations: []v1alpha1.LedgerReservation{{
				Key: "policy/b", Sequence: 7, ReservedAt: 1_700_000_000, Claim: `{"kind":"ResourceClaim"}`,
				Charges: []v1alpha1.LedgerCharge{{ResourceType: "type-0", Dimensions: dimensions, Amount: 1}},
				Awaits:  &v1alpha1.LedgerAwaited{Kind: "pods", ID: "u", After: 2, Namespaces: 3, Policies: 4},
			}},
		},
	}

	schema := newSchema(t, "ConsumerLedger")
	object := content(t, want)
	if errs := schema.Admit(t.Context(), object, nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(want, decode[v1alpha1.ConsumerLedger](t, object)); diff != "" {
		t.Errorf("ledger (-written +stored):\n%s", diff)
	}
}

func TestAllocationLedgerIsStoredWhole(t *testing.T) {
	typeMeta, objectMeta := sampleMeta("AllocationLedger")
	want := &v1alpha1.AllocationLedger{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.AllocationLedgerSpec{
			AllocationName: "team", AllocationVersion: "7",
			Pending: []v1alpha1.PendingResourceQuota{{
				ID: "a", Namespace: "web", Name: "default", UID: "u", ResourceVersion: "5", NamespaceVersion: "3",
				Hard: corev1.ResourceList{"pods": resource.MustParse("10")}, AdmittedAt: metav1.Unix(1_700_000_000, 0),
			}},
		},
	}
	schema := newSchema(t, "AllocationLedger")
	object := content(t, want)
	if errs := schema.Admit(t.Context(), object, nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(want, decode[v1alpha1.AllocationLedger](t, object)); diff != "" {
		t.Errorf("ledger (-written +stored):\n%s", diff)
	}
}

func decode[T any](t *testing.T, object map[string]any) *T {
	t.Helper()
	decoded := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, decoded, true); err != nil {
		t.Fatal(err)
	}
	return decoded
}
