package catalog

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// instances is a policy by which an Instance costs its Project one at a location.
func instances(generation int64) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "instances", UID: "p", Generation: generation},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "Instance"}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: project,
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1, Dimensions: map[string]string{"location": "DFW"}}},
				},
			}},
		},
	}
}

// effective is the status of a policy that is in effect.
func effective(t *testing.T, policy *quotav1alpha1.ClaimCreationPolicy) *quotav1alpha1.EffectivePolicy {
	t.Helper()
	spec, err := json.Marshal(policy.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return &quotav1alpha1.EffectivePolicy{Generation: policy.Generation, Spec: runtime.RawExtension{Raw: spec}}
}

// register enters the registration of t, for claims of Instances. It may have dimensions.
func register(c *Catalog, dimensions ...string) {
	r := registrationAt("cpus", 1, metav1.ConditionTrue)
	r.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: project.APIGroup, Kind: project.Kind}
	r.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: "Instance"}}
	r.Spec.Dimensions = dimensions
	c.SetRegistration(r)
}

func TestPoliciesAreUsedOnceTheyFit(t *testing.T) {
	ready := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: quotav1alpha1.ConditionReady, Status: status, ObservedGeneration: 1}}
	}
	set := func(t *testing.T, c *Catalog, p *quotav1alpha1.ClaimCreationPolicy) {
		t.Helper()
		if errs := c.SetPolicy(p); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	tests := map[string]struct {
		reason string
		happen func(t *testing.T, c *Catalog)
		want   bool
	}{
		"it fits": {"nothing keeps it", func(t *testing.T, c *Catalog) { register(c, "location"); set(t, c, instances(1)) }, true},
		"no registration": {"nobody knows what it counts", func(t *testing.T, c *Catalog) {
			set(t, c, instances(1))
		}, false},
		"it never fitted": {"what its status says is not in force refuses nobody", func(t *testing.T, c *Catalog) {
			register(c)
			set(t, c, instances(1))
		}, false},
		"it comes to fit": {"by itself", func(t *testing.T, c *Catalog) {
			register(c)
			set(t, c, instances(1))
			register(c, "location")
		}, true},
		"it fits no more": {"enforcement does not end because somebody edits a registration", func(t *testing.T, c *Catalog) {
			register(c, "location")
			set(t, c, instances(1))
			register(c)
		}, true},
		"another generation does not fit": {"a mistake in a change does not end enforcement", func(t *testing.T, c *Catalog) {
			register(c, "location")
			set(t, c, instances(1))
			register(c)
			p := instances(2)
			p.Status.Conditions = ready(metav1.ConditionFalse)
			p.Status.Conditions[0].ObservedGeneration = 2
			set(t, c, p)
		}, true},
		"it fitted an earlier process": {"its status tells", func(t *testing.T, c *Catalog) {
			register(c)
			p := instances(1)
			p.Status.Effective = effective(t, instances(1))
			set(t, c, p)
		}, true},
		"an earlier generation was effective": {"its spec is in the status", func(t *testing.T, c *Catalog) {
			register(c)
			p := instances(2)
			p.Status.Effective = effective(t, instances(1))
			set(t, c, p)
		}, true},
		"an earlier generation was ready": {"which says nothing of this one", func(t *testing.T, c *Catalog) {
			register(c)
			p := instances(2)
			p.Status.Conditions = ready(metav1.ConditionTrue)
			set(t, c, p)
		}, false},
		"an earlier process suspended it": {"its status tells", func(t *testing.T, c *Catalog) {
			register(c, "location")
			p := instances(1)
			p.Status.Effective = effective(t, instances(1))
			p.Status.Effective.Suspended = true
			set(t, c, p)
		}, false},
		"another process resumes it": {"its status comes by watch", func(t *testing.T, c *Catalog) {
			register(c, "location")
			for _, isSuspended := range []bool{true, false} {
				p := instances(1)
				p.Status.Effective = effective(t, instances(1))
				p.Status.Effective.Suspended = isSuspended
				set(t, c, p)
			}
		}, true},
		"an old status comes after a suspension": {"the leader is ahead of what it wrote", func(t *testing.T, c *Catalog) {
			register(c, "location")
			p := instances(1)
			p.Status.Effective = effective(t, instances(1))
			set(t, c, p)
			c.SetSuspended("instances", 1, true)
			set(t, c, p.DeepCopy())
		}, false},
		"another process finds it ready": {"its status comes by watch", func(t *testing.T, c *Catalog) {
			register(c)
			p := instances(1)
			set(t, c, p)
			p = p.DeepCopy()
			p.Status.Effective = effective(t, p)
			set(t, c, p)
		}, true},
		"it is withheld": {"whatever the registrations say", func(t *testing.T, c *Catalog) {
			register(c, "location")
			set(t, c, instances(1))
			if !c.SetSuspended("instances", 1, true) || c.SetSuspended("instances", 1, true) {
				t.Error("withholding is a change once")
			}
		}, false},
		"it is withheld no more": {"what kept it is gone", func(t *testing.T, c *Catalog) {
			register(c, "location")
			set(t, c, instances(1))
			c.SetSuspended("instances", 1, true)
			if !c.SetSuspended("instances", 1, false) {
				t.Error("using it again is a change")
			}
		}, true},
		"an earlier generation is withheld": {"which says nothing of this one", func(t *testing.T, c *Catalog) {
			register(c, "location")
			set(t, c, instances(2))
			c.SetSuspended("instances", 1, true)
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			tt.happen(t, c)
			kind := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}
			got := []bool{c.Policy("instances") != nil, len(c.Policies(kind)) == 1, len(c.PoliciesOf(kind.GroupKind())) == 1, len(c.Protected().Triggers) == 1}
			for i, way := range []string{"by name", "by kind and version", "by kind", "as a trigger"} {
				if got[i] != tt.want {
					t.Errorf("%s: looked up %s it is used: %t, want %t", tt.reason, way, got[i], tt.want)
				}
			}
		})
	}
}

// A changed policy may arrive before the registration that it follows. Meanwhile, the former generation is effective.
func TestChangedPolicyWaitsForItsRegistration(t *testing.T) {
	changed := func(generation int64, ready ...metav1.Condition) *quotav1alpha1.ClaimCreationPolicy {
		p := instances(generation)
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{"location": "DFW", "tier": "fast"}
		p.Status.Conditions = ready
		return p
	}
	rejected := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 2}
	tests := map[string]struct {
		happen func(c *Catalog)
		want   int64 // the effective generation
	}{
		"nothing":                       {func(*Catalog) {}, 1},
		"its registration comes":        {func(c *Catalog) { register(c, "location", "tier") }, 2},
		"another change":                {func(c *Catalog) { register(c, "location", "zone") }, 1},
		"it is rejected":                {func(c *Catalog) { c.SetPolicy(changed(2, rejected)) }, 1},
		"it is rejected, and fits then": {func(c *Catalog) { c.SetPolicy(changed(2, rejected)); register(c, "location", "tier") }, 2},
		"the status of the former": {func(c *Catalog) {
			c.SetPolicy(changed(2, metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}))
		}, 1},
		"a third generation fits":       {func(c *Catalog) { c.SetPolicy(instances(3)) }, 3},
		"a third does not fit":          {func(c *Catalog) { c.SetPolicy(changed(3)) }, 1},
		"the policy goes":               {func(c *Catalog) { c.RemovePolicy("instances"); register(c, "location", "tier") }, 0},
		"the policy is another":         {func(c *Catalog) { p := changed(1); p.UID = "q"; c.SetPolicy(p) }, 0},
		"the former is unregistered":    {func(c *Catalog) { c.RemoveRegistration("cpus") }, 0},
		"registered again, for both":    {func(c *Catalog) { c.RemoveRegistration("cpus"); register(c, "location", "tier") }, 2},
		"registered again, for neither": {func(c *Catalog) { c.RemoveRegistration("cpus"); register(c, "location") }, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			register(c, "location")
			for _, p := range []*quotav1alpha1.ClaimCreationPolicy{instances(1), changed(2)} {
				if errs := c.SetPolicy(p); len(errs) > 0 {
					t.Fatal(errs)
				}
				if declared := (Version{stampOfPolicy(p), c.Version().Registrations}); c.Version() != declared {
					t.Errorf("the version is %s, want %s: somebody may wait for it", c.Version(), declared)
				}
			}
			before := c.Protected().Revision
			tt.happen(c)
			var got int64
			if p := c.Policy("instances"); p != nil {
				got = p.Generation
				if got > 1 && p.Revision <= before {
					t.Errorf("the policy has revision %d, want one after %d", p.Revision, before)
				}
			}
			kind := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}
			if got != tt.want || (got != 0) != (len(c.Policies(kind)) == 1) || (got != 0) != (len(c.PoliciesOf(kind.GroupKind())) == 1) {
				t.Errorf("generation %d is effective, want %d; by kind: %d and %d", got, tt.want, len(c.Policies(kind)), len(c.PoliciesOf(kind.GroupKind())))
			}
		})
	}
}

// Reviews during an ineffective period of a policy happened without it.
func TestPolicyThatIsUsedAgainIsNew(t *testing.T) {
	c := New()
	register(c, "location")
	if errs := c.SetPolicy(instances(1)); len(errs) > 0 {
		t.Fatal(errs)
	}
	before := c.Policy("instances")
	register(c, "location", "tier")
	if c.Policy("instances") != before {
		t.Error("a change of the registration that changes nothing for the policy made it new")
	}
	c.RemoveRegistration("cpus")
	meanwhile := c.Protected().Revision
	register(c, "location")
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}
	again := c.Policy("instances")
	if again == nil || again.Revision <= meanwhile || c.Policies(kind)[0] != again || c.PoliciesOf(kind.GroupKind())[0] != again {
		t.Errorf("the policy is %+v, want one that was entered after revision %d, however it is looked up", again, meanwhile)
	}
}

// A policy counts objects unless its demand, or an annotation of its claims, depends on the request.
func TestCountsObjects(t *testing.T) {
	of := func(p *quotav1alpha1.ClaimCreationPolicy) *quotav1alpha1.ResourceClaimTemplate {
		return &p.Spec.Target.ResourceClaimTemplate
	}
	tests := map[string]struct {
		change             func(*quotav1alpha1.ClaimCreationPolicy)
		counts, wantsViews bool
	}{
		"default":  {func(*quotav1alpha1.ClaimCreationPolicy) {}, true, true},
		"no views": {func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Claims = quotav1alpha1.ClaimsModeNone }, true, false},
		"user in a condition": {func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "user.name == 'alice'"}}
		}, false, false},
		"user in an annotation": {func(p *quotav1alpha1.ClaimCreationPolicy) {
			of(p).Metadata.Annotations = map[string]string{"requested-by": "{{.user.name}}"}
		}, false, false},
		"user in an annotation, with updates": {func(p *quotav1alpha1.ClaimCreationPolicy) {
			of(p).Metadata.Annotations = map[string]string{"requested-by": "{{.user.name}}"}
			p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
		}, true, true},
		"parent pays": {func(p *quotav1alpha1.ClaimCreationPolicy) { of(p).Spec.ConsumerRef = quotav1alpha1.ConsumerRef{} }, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			register(c, "location")
			p := instances(1)
			tt.change(p)

			if errs := c.SetPolicy(p); len(errs) > 0 {
				t.Fatal(errs)
			}

			if got, _ := c.Current("instances"); got == nil || got.CountsObjects() != tt.counts || got.HasViews != tt.wantsViews {
				t.Errorf("got %+v, want a policy that counts objects: %t, with views: %t", got, tt.counts, tt.wantsViews)
			}
		})
	}
}
