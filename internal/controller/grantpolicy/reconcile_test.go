package grantpolicy

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kinds"
)

// nothingServed is an API server without any kind.
type nothingServed struct{}

func (nothingServed) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return schema.GroupVersionResource{}, false, nil
}

func (nothingServed) StateOf(context.Context, schema.GroupKind) (kinds.State, schema.GroupVersionResource, error) {
	return kinds.Undefined, schema.GroupVersionResource{}, nil
}

// everythingAllowed are registrations that allow every grant.
type everythingAllowed struct{}

func (everythingAllowed) CheckGrant(*quotav1alpha1.ResourceGrantSpec) error { return nil }

func teamsPolicy(uid types.UID, generation int64, condition string) *quotav1alpha1.GrantCreationPolicy {
	policy := &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "teams", UID: uid, Generation: generation}}
	policy.Spec.Trigger.Resource = quotav1alpha1.GrantTriggerResource{APIVersion: "example.com/v1", Kind: "Team"}
	policy.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: condition}}
	policy.Spec.Target.ResourceGrantTemplate.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Team", Name: "{{.trigger.metadata.name}}"}
	return policy
}

// TestAGenerationIsCompiledOnce looks at policies as often as kinds and registrations change.
func TestAGenerationIsCompiledOnce(t *testing.T) {
	c := &Controller{Kinds: nothingServed{}, Catalog: everythingAllowed{}}
	c.Start()
	look := func(object *quotav1alpha1.GrantCreationPolicy) *policyState {
		t.Helper()
		state := &policyState{object: object}
		if _, err := c.inspect(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		c.setPolicy(state)
		return state
	}
	first := look(teamsPolicy("u1", 1, "true"))
	if first.compiled == nil {
		t.Fatalf("the policy does not compile: %v", first.faults)
	}
	for range 3 {
		if again := look(teamsPolicy("u1", 1, "true")); again.compiled != first.compiled {
			t.Error("the same generation of a policy was compiled again")
		}
	}
	next := look(teamsPolicy("u1", 2, "false"))
	if next.compiled == nil || next.compiled == first.compiled {
		t.Error("another generation of a policy was not compiled")
	}
	if other := look(teamsPolicy("u2", 2, "true")); other.compiled == nil || other.compiled == next.compiled {
		t.Error("another policy of that name was not compiled")
	}
	faulty := look(teamsPolicy("u2", 3, "true &&"))
	if again := look(teamsPolicy("u2", 3, "true &&")); len(faulty.faults) == 0 || &again.faults[0] != &faulty.faults[0] {
		t.Error("the same generation of a policy with faults was compiled again")
	}
}
