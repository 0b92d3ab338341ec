package grantpolicy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// nothingServed is an API server without any kind.
type nothingServed struct{ discoverycache.States }

func (nothingServed) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return schema.GroupVersionResource{}, false, nil
}

func (nothingServed) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Undefined, schema.GroupVersionResource{}, nil
}

// everythingAllowed are registrations for every grant.
type everythingAllowed struct{}

func (everythingAllowed) CheckGrant(*quotav1alpha1.ResourceGrantSpec) error { return nil }
func (everythingAllowed) CheckNew(...string) error                          { return nil }
func (everythingAllowed) Registration(string) *catalog.Registration         { return nil }

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
		t.Fatalf("the policy does not compile: %v", first.errs)
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
	if again := look(teamsPolicy("u2", 3, "true &&")); len(faulty.errs) == 0 || &again.errs[0] != &faulty.errs[0] {
		t.Error("the same generation of a policy with faults was compiled again")
	}
}

// TestUndefinedKind has policies with a missing kind: whether the kind ever existed decides about the grants.
func TestUndefinedKind(t *testing.T) {
	ready := func(status metav1.ConditionStatus, generation int64) *quotav1alpha1.GrantCreationPolicy {
		p := teamsPolicy("u1", 2, "true")
		p.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionReady, Status: status, ObservedGeneration: generation}}
		return p
	}
	for name, tc := range map[string]struct {
		reason string
		before mode // of the same generation, if it is not dormant
		policy *quotav1alpha1.GrantCreationPolicy
		want   mode
	}{
		"never served":     {"it may be mistyped", modeRetain, ready(metav1.ConditionFalse, 2), modeRetain},
		"edited":           {"what it was before says nothing of this kind", modeRetain, ready(metav1.ConditionTrue, 1), modeRetain},
		"gone":             {"its objects are gone as well", modeApply, ready(metav1.ConditionFalse, 2), modeDelete},
		"still gone":       {"", modeDelete, ready(metav1.ConditionFalse, 2), modeDelete},
		"gone meanwhile":   {"an earlier process saw it", modeRetain, ready(metav1.ConditionTrue, 2), modeDelete},
		"gone, never used": {"", modeRetain, teamsPolicy("u1", 2, "true"), modeRetain},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Kinds: nothingServed{}, Catalog: everythingAllowed{}}
			c.Start()
			if tc.before != modeRetain {
				c.policies["u1"] = &policyState{object: tc.policy, mode: tc.before}
			}
			state := &policyState{object: tc.policy}
			if _, err := c.inspect(t.Context(), state); err != nil || state.mode != tc.want {
				t.Errorf("%s: got mode %d, error %v, want %d", tc.reason, state.mode, err, tc.want)
			}
		})
	}
}

// TestLongRecord has a policy make grants in ever more control planes. These come and go.
func TestLongRecord(t *testing.T) {
	c := &Controller{}
	c.Start()
	policy := teamsPolicy("u1", 1, "true")
	s := &policyState{object: policy, mode: modeApply, since: time.Now(), outcomes: map[types.UID]*outcome{}}
	c.policies["u1"], c.recorded["u1"] = s, map[remote.Ref]bool{}
	ref := func(n int) remote.Ref { return remote.Ref{Kind: "Cluster", Name: fmt.Sprint(n)} }
	var refs []remote.Ref
	for n := range recordedMax {
		refs = append(refs, ref(n))
		c.recorded["u1"][ref(n)] = true
	}
	s.outcomes["wanted"] = &outcome{controlPlane: ref(7)}
	grant := completed(&quotav1alpha1.ResourceGrant{}, policy.Name, object("", "a", "u1"), ref(8))
	grant.Labels[quotav1alpha1.LabelPolicyUID] = "u1"
	for n, name := range map[int]string{8: "holds a grant", 9: "holds none", 10: "was not listed"} {
		p := newControlPlane(c, ref(n), nil, nil)
		p.listed, p.listedAt = n != 10, time.Now().Add(time.Hour)
		if n == 8 {
			p.recordGrant(grant)
		}
		c.controlPlanes[p.ref] = p
		t.Log(ref(n), name)
	}
	got := c.stillNeeded("u1", refs)
	if want := []remote.Ref{ref(7), ref(8), ref(10)}; !cmp.Equal(got, want) {
		t.Errorf("on record stay %v, want %v", got, want)
	}
	if len(c.recorded["u1"]) != len(got) {
		t.Errorf("%d control planes are taken for recorded, want %d", len(c.recorded["u1"]), len(got))
	}
}

// TestThrottle evaluates a slow policy: it rests for longer, and a quick one does not rest.
func TestThrottle(t *testing.T) {
	var p throttle
	now := time.Unix(1000, 0)
	for range 3 {
		if !p.begin(now) {
			t.Fatal("a policy that is evaluated quickly rests")
		}
		p.end(now, slowEvaluation)
	}
	took := 20 * slowEvaluation
	p.end(now, took)
	if p.begin(now.Add(restFactor*took - 1)) {
		t.Error("it does not rest")
	}
	now = now.Add(restFactor * took)
	if !p.begin(now) || p.begin(now) {
		t.Error("after its rest, one evaluation may begin at a time")
	}
	p.end(now, 0)
	p.begin(now)
	now = now.Add((1 + restFactor) * took)
	if first, second := p.begin(now), p.begin(now); !first || !second {
		t.Error("it goes on resting though it is quick now")
	}
}
