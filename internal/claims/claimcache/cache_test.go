package claimcache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func claimOf(name, uid, consumer, objectUID string) *quotav1alpha1.ResourceClaim {
	claim := &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(uid), Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Organization", Name: consumer},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: "g", Kind: "Project", Name: "p", Namespace: "n"},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 3, Dimensions: map[string]string{"region": "eu"}}},
		},
	}
	if objectUID != "" {
		claim.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "policy"}
		claim.Annotations = map[string]string{
			quotav1alpha1.AnnotationResourceUID: objectUID,
		}
	}
	return claim
}

func TestCompactHasAllFieldsOfDecisions(t *testing.T) {
	claim := claimOf("a", "1", "acme", "object")
	claim.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	c := Compact(claim)
	if diff := cmp.Diff(claim.Spec, c.Spec()); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if c.State != Granted || !c.Finalizer || c.Deleting || c.ObjectUID != "object" {
		t.Errorf("got %+v", c)
	}
}

func TestStateOf(t *testing.T) {
	tests := map[string]struct {
		condition *metav1.Condition
		want      State
	}{
		"new":      {nil, Pending},
		"pending":  {&metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonPendingEvaluation}, Pending},
		"granted":  {&metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonQuotaAvailable}, Granted},
		"exceeded": {&metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonQuotaExceeded}, Waiting},
		"invalid":  {&metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonValidationFailed}, Invalid},
	}
	for name, tt := range tests {
		claim := &quotav1alpha1.ResourceClaim{}
		if tt.condition != nil {
			tt.condition.Type = quotav1alpha1.ConditionGranted
			claim.Status.Conditions = []metav1.Condition{*tt.condition}
		}
		if got := StateOf(claim); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestCacheFollowsClaims(t *testing.T) {
	c := New()
	var told []string
	c.OnChange(func(before, after *Claim) {
		switch {
		case before == nil:
			told = append(told, "+"+string(after.UID))
		case after == nil:
			told = append(told, "-"+string(before.UID))
		default:
			told = append(told, "~"+string(after.UID))
		}
	})
	s := &store{c}
	acme := quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}

	for _, err := range []error{
		s.Add(claimOf("a", "1", "acme", "object")),
		s.Update(claimOf("a", "1", "acme", "object")),
		s.Update(claimOf("a", "2", "acme", "")), // deleted and recreated while nobody watched
		s.Add(claimOf("b", "3", "other", "object")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.ForObject("object")); got != 1 {
		t.Errorf("%d claims are of the object, want 1", got)
	}
	if got := len(c.ForConsumer(acme, func(*Claim) bool { return true })); got != 1 {
		t.Errorf("%d claims are of acme, want 1", got)
	}
	if diff := cmp.Diff([]schema.GroupKind{{Group: "g", Kind: "Project"}}, c.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if c.HasSynced() {
		t.Error("the cache says that it has synced before the first list")
	}

	if err := s.Replace([]any{claimOf("a", "2", "acme", "")}, ""); err != nil {
		t.Fatal(err)
	}
	if !c.HasSynced() || len(c.byName) != 1 || len(c.Kinds()) != 0 || len(c.ForObject("object")) != 0 {
		t.Errorf("after the list: synced %t, %d claims, kinds %v", c.HasSynced(), len(c.byName), c.Kinds())
	}
	if diff := cmp.Diff([]string{"+1", "~1", "-1", "+2", "+3", "~2", "-3"}, told); diff != "" {
		t.Errorf("what handlers were told (-want +got):\n%s", diff)
	}
}
