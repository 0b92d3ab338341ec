package catalog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A process that starts must not admit what a policy denies elsewhere.
func TestUndecidable(t *testing.T) {
	type object = quotav1alpha1.ClaimCreationPolicy
	instance := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}
	unfit := func(p *object) { p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions["tier"] = "fast" }
	unregistered := func(p *object) { p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = "shop/gone" }
	follows := func(p *object) {
		p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
	}
	broken := func(p *object) {
		p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "trigger.newerThanThisBinary("}}
	}
	ready := func(generation int64, status metav1.ConditionStatus) func(*object) {
		return func(p *object) {
			p.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionReady, Status: status, ObservedGeneration: generation}}
		}
	}
	inEffect := func(generation int64, changes ...func(*object)) func(*object) {
		return func(p *object) {
			former := instances(generation)
			for _, change := range changes {
				change(former)
			}
			p.Status.Effective = effective(t, former)
		}
	}
	audits := func(p *object) { p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeAudit }
	suspended := func(p *object) { p.Status.Effective.Suspended = true }

	for name, tt := range map[string]struct {
		reason      string
		changes     []func(*object)
		wantCreate  bool // whether a create is undecidable
		wantUpdate  bool
		wantTrigger bool // whether the kind stays protected
	}{
		"fits":                     {"it is effective here", nil, false, false, true},
		"never ready":              {"nobody relies on it", []func(*object){unfit}, false, false, false},
		"rejected":                 {"the leader has found that it is effective nowhere", []func(*object){unfit, ready(2, metav1.ConditionFalse)}, false, false, false},
		"former":                   {"the status has the generation that is in effect", []func(*object){unfit, inEffect(1), ready(2, metav1.ConditionFalse)}, false, false, true},
		"does not parse":           {"a later binary may have it in effect", []func(*object){broken, inEffect(2, broken)}, true, false, true},
		"does not parse, followed": {"the same for updates", []func(*object){broken, follows, inEffect(2, broken, follows)}, true, true, true},
		"does not parse, audits":   {"it denies nothing anywhere", []func(*object){broken, audits, inEffect(2, broken, audits)}, false, false, true},
		"does not parse, rejected": {"an older leader cannot parse it either, and later binaries can",
			[]func(*object){broken, inEffect(2, broken), ready(2, metav1.ConditionFalse)}, true, false, true},
		"does not parse, former": {"the former generation goes on", []func(*object){broken, inEffect(1)}, false, false, true},
		"no spec in the status": {"nobody knows what it denies", []func(*object){unfit, func(p *object) {
			p.Status.Effective = &quotav1alpha1.EffectivePolicy{Generation: 1, Spec: runtime.RawExtension{Raw: []byte("{")}}
		}}, true, false, true},
		"rejected, former unregistered": {"the rejection is about another generation than the one that decides elsewhere",
			[]func(*object){unfit, inEffect(1, unregistered), ready(2, metav1.ConditionFalse)}, true, false, false},
		"suspended": {"the leader may have resumed it just now", []func(*object){inEffect(2), suspended}, true, false, false},
		"disabled":  {"its author ends it", []func(*object){inEffect(1), func(p *object) { p.Spec.Disabled = true }}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			register(c, "location")
			p := instances(2)
			for _, change := range tt.changes {
				change(p)
			}

			c.SetPolicy(p)

			if got := c.Undecidable(instance, false) != ""; got != tt.wantCreate {
				t.Errorf("%s: a create is undecidable: %t, want %t", tt.reason, got, tt.wantCreate)
			}
			if got := c.Undecidable(instance, true) != ""; got != tt.wantUpdate {
				t.Errorf("%s: an update is undecidable: %t, want %t", tt.reason, got, tt.wantUpdate)
			}
			if got := len(c.Protected().Triggers) == 1; got != tt.wantTrigger {
				t.Errorf("%s: the kind is protected: %t, want %t", tt.reason, got, tt.wantTrigger)
			}
		})
	}
}

// While the resource types of a policy are unregistered, it is effective nowhere, and other policies go on.
func TestUnregisteredIsDecidable(t *testing.T) {
	c := New()
	register(c, "location")
	p := instances(1)
	p.Status.Effective = effective(t, p)
	c.SetPolicy(p)
	c.RemoveRegistration("cpus")
	instance := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}
	if c.Undecidable(instance, false) == "" {
		t.Error("the leader has not decided yet, and creates are decidable")
	}

	p = p.DeepCopy()
	p.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 1}}
	c.SetPolicy(p)

	if name := c.Undecidable(instance, false); name != "" {
		t.Errorf("policy %s is effective nowhere, and creates are undecidable", name)
	}
}
