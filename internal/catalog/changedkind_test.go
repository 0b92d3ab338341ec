package catalog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A changed kind in a policy may be a typo. Until the leader has accepted it, the former kind stays protected, in a
// process that knows the former generation and in one that starts.
func TestChangedKind(t *testing.T) {
	instance, machine := schema.GroupVersionKind{Version: "v1", Kind: "Instance"}, schema.GroupVersionKind{Version: "v1", Kind: "Machine"}
	former := instances(1)
	changed := instances(2)
	changed.Spec.Trigger.Resource.Kind = machine.Kind

	for name, tt := range map[string]struct {
		reason    string
		wasReady  bool
		happens   func(*Catalog)
		decides   schema.GroupVersionKind // the kind of the generation that decides requests
		undecided bool                    // whether creates of the new kind are undecidable
	}{
		"changed": {"nobody knows yet whether the kind is served", true, func(*Catalog) {}, instance, true},
		"rejected": {"it is not", true, func(c *Catalog) {
			c.SetPolicy(withReady(changed, metav1.ConditionFalse, effective(t, former)))
		}, instance, false},
		"registered again": {"registrations say nothing about the kind", true, func(c *Catalog) { register(c, "location") }, instance, true},
		"accepted":         {"the leader has found it served", true, func(c *Catalog) { c.AcceptKind("instances", 2) }, machine, false},
		"accepted, later":  {"the former generation is not the question", true, func(c *Catalog) { c.AcceptKind("instances", 1) }, instance, true},
		"ready elsewhere": {"the status says so", true, func(c *Catalog) {
			c.SetPolicy(withReady(changed, metav1.ConditionTrue, effective(t, changed)))
		}, machine, false},
		"never ready": {"nobody relies on the former kind", false, func(*Catalog) {}, machine, false},
	} {
		for start, isNew := range map[string]bool{"known": false, "at the start": true} {
			t.Run(name+"/"+start, func(t *testing.T) {
				c := New()
				register(c, "location")
				latest := changed.DeepCopy()
				if tt.wasReady {
					latest.Status.Effective = effective(t, former)
				}
				if !isNew {
					earlier := former.DeepCopy()
					earlier.Status = latest.Status
					c.SetPolicy(earlier)
				}
				c.SetPolicy(latest)

				tt.happens(c)

				current, _ := c.Current("instances")
				if current == nil || current.Trigger != tt.decides || len(c.Policies(tt.decides)) != 1 {
					t.Errorf("%s: %+v decides requests, want the generation for %s", tt.reason, current, tt.decides.Kind)
				}
				if protected := c.Protected().Triggers; len(protected) != 1 || protected[0].GroupVersionKind != tt.decides {
					t.Errorf("%s: protected are %+v, want %s", tt.reason, protected, tt.decides.Kind)
				}
				if got := c.Undecidable(machine, false) != ""; got != tt.undecided {
					t.Errorf("%s: creates of the new kind are undecidable: %t, want %t", tt.reason, got, tt.undecided)
				}
				if name := c.Undecidable(instance, false); name != "" {
					t.Errorf("%s: creates of the former kind are undecidable because of policy %s", tt.reason, name)
				}
			})
		}
	}
}

// withReady is a policy with a status.
func withReady(policy *quotav1alpha1.ClaimCreationPolicy, ready metav1.ConditionStatus, effective *quotav1alpha1.EffectivePolicy) *quotav1alpha1.ClaimCreationPolicy {
	policy = policy.DeepCopy()
	policy.Status.Effective = effective
	policy.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionReady, Status: ready, ObservedGeneration: policy.Generation}}
	return policy
}

// A registration may come and go while somebody reads a policy.
func TestPoliciesAreReadWhileTheyChange(t *testing.T) {
	c := New()
	register(c, "location")
	p := instances(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 100 {
			c.RemoveRegistration("cpus")
			register(c, "location")
		}
	}()
	for isEnded := false; !isEnded; {
		select {
		case <-ended:
			isEnded = true
		default:
		}
		c.SetPolicy(p)
		if current, _ := c.Current("instances"); current != nil && current.Revision == 0 {
			t.Error("the policy that decides requests has no revision")
		}
	}
}
