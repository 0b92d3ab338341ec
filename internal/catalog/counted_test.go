package catalog

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

type policyObject = quotav1alpha1.ClaimCreationPolicy

var instanceKind = schema.GroupVersionKind{Version: "v1", Kind: "Instance"}

// counting is a policy on a kind by which existing objects count.
func counting(name, kind string) *policyObject {
	p := policyAt(name, 1)
	p.Spec.Claims = quotav1alpha1.ClaimsModeNone
	p.Spec.Trigger.Resource.Kind = kind
	return &p
}

// recording is a policy on Instances with claims of record: they say who asked for the objects.
func recording(name string, generation int64) *policyObject {
	p := policyAt(name, generation)
	p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{"asked-by": "{{.user.name}}"}
	return &p
}

// registerKinds lets Instances and Machines claim t.
func registerKinds(c *Catalog) {
	r := registrationAt("cpus", 1, metav1.ConditionTrue)
	r.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: project.APIGroup, Kind: project.Kind}
	r.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: "Instance"}, {Kind: "Machine"}}
	r.Spec.Dimensions = []string{"location"}
	c.SetRegistration(r)
}

// Policies with claims of record count nothing here. A policy that decides no requests for a while counts on.
func TestCountedPolicies(t *testing.T) {
	tests := map[string]struct {
		reason    string
		happens   func(*Catalog)
		wantKinds []string
		want      []string // the policies of Instances
	}{
		"all": {"each kind has its policies, by name", func(*Catalog) {}, []string{"Instance", "Machine"}, []string{"a", "b"}},
		"no registration": {"other replicas may not know yet that it was deleted", func(c *Catalog) {
			c.RemoveRegistration("cpus")
		}, []string{"Instance", "Machine"}, []string{"a", "b"}},
		"suspended": {"the objects exist all the same", func(c *Catalog) { c.SetSuspended("a", 1, true) }, []string{"Instance", "Machine"}, []string{"a", "b"}},
		"disabled": {"the administrator wants no quota", func(c *Catalog) {
			p := disabled(*counting("m", "Machine"))
			c.SetPolicy(&p)
		}, []string{"Instance"}, []string{"a", "b"}},
		"removed": {"nothing counts without a policy", func(c *Catalog) { c.RemovePolicy("a") }, []string{"Instance", "Machine"}, []string{"b"}},
		"claims from now on": {"the claims have the charges", func(c *Catalog) {
			c.SetPolicy(recording("b", 2))
		}, []string{"Instance", "Machine"}, []string{"a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			registerKinds(c)
			for _, p := range []*policyObject{counting("m", "Machine"), counting("b", "Instance"), counting("a", "Instance"), recording("c", 1)} {
				if errs := c.SetPolicy(p); len(errs) > 0 {
					t.Fatal(errs)
				}
			}

			tt.happens(c)

			var kinds, names []string
			for _, kind := range c.CountedKinds() {
				kinds = append(kinds, kind.Kind)
			}
			for _, p := range c.Counted(instanceKind).Policies {
				names = append(names, p.Name)
			}
			if !slices.Equal(kinds, tt.wantKinds) || !slices.Equal(names, tt.want) {
				t.Errorf("%s: got the kinds %v and the policies %v, want %v and %v", tt.reason, kinds, names, tt.wantKinds, tt.want)
			}
		})
	}
}

// Two replicas may know different registrations at the same version of the policies. A kind is settled only if that
// makes no difference.
func TestCountedIsSettled(t *testing.T) {
	status := func(ready metav1.ConditionStatus, effective *quotav1alpha1.EffectivePolicy) func(*policyObject) {
		return func(p *policyObject) { *p = *withReady(p, ready, effective) }
	}
	unconfirmed := func(*policyObject) {}
	broken := faultyPolicy(*counting("a", "Instance"))
	former := counting("a", "Instance")
	latest := func(change func(*policyObject)) func(*policyObject) {
		return func(p *policyObject) {
			p.Generation = 2
			change(p)
		}
	}
	isBroken := func(p *policyObject) { p.Spec = broken.Spec }
	isUnfit := func(p *policyObject) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = "shop/unknown"
	}
	isAboutMachines := func(p *policyObject) { p.Spec.Trigger.Resource.Kind = "Machine" }
	const rejected, ready = metav1.ConditionFalse, metav1.ConditionTrue

	tests := map[string]struct {
		reason  string
		changes []func(*policyObject)
		want    bool
		// generation is that of the counted policy, or 0 if none counts.
		generation int64
	}{
		"confirmed":   {"every replica takes it from the status", []func(*policyObject){status(ready, effective(t, former))}, true, 1},
		"unconfirmed": {"a replica without the registration does not count by it", []func(*policyObject){unconfirmed}, false, 1},
		"ahead": {"others count by the generation in the status until they know the registration",
			[]func(*policyObject){latest(unconfirmed), status(rejected, effective(t, former))}, false, 2},
		"undecided change": {"a replica with the registration counts by it",
			[]func(*policyObject){latest(isUnfit), func(p *policyObject) { p.Status.Effective = effective(t, former) }}, false, 1},
		"rejected change": {"the status says which generation goes on",
			[]func(*policyObject){latest(isUnfit), status(rejected, effective(t, former))}, true, 1},
		"broken change": {"no replica can compile it, says the status",
			[]func(*policyObject){latest(isBroken), status(rejected, effective(t, former))}, true, 1},
		"other kind, undecided": {"the objects of both kinds may count",
			[]func(*policyObject){latest(isAboutMachines), func(p *policyObject) { p.Status.Effective = effective(t, former) }}, false, 1},
		"never fitted":              {"a replica with the registration counts by it", []func(*policyObject){isUnfit}, false, 0},
		"never fitted, rejected":    {"no generation is in the status", []func(*policyObject){isUnfit, status(rejected, nil)}, true, 0},
		"never compiled":            {"nothing counts by it", []func(*policyObject){isBroken}, true, 0},
		"never compiled, rejected":  {"nothing counts by it", []func(*policyObject){isBroken, status(rejected, nil)}, true, 0},
		"compiles only elsewhere":   {"a later binary counts by it", []func(*policyObject){isBroken, status(ready, effective(t, &broken))}, false, 0},
		"former compiles elsewhere": {"a later binary counts by the former generation", []func(*policyObject){latest(isBroken), status(rejected, effective(t, &broken))}, false, 0},
		"disabled":                  {"it does not count anywhere", []func(*policyObject){func(p *policyObject) { p.Spec.Disabled = true }}, true, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			registerKinds(c)
			p := counting("a", "Instance")
			for _, change := range tt.changes {
				change(p)
			}

			c.SetPolicy(p)

			got := c.Counted(instanceKind)
			var generation int64
			if len(got.Policies) > 0 {
				generation = got.Policies[0].Generation
			}
			if got.IsSettled != tt.want || generation != tt.generation {
				t.Errorf("%s: settled is %t with generation %d, want %t with %d", tt.reason, got.IsSettled, generation, tt.want, tt.generation)
			}
		})
	}
}

// A policy that moves to another kind keeps both kinds from being observed until every replica has moved, and no other
// kind.
func TestCountedKindChanges(t *testing.T) {
	former, latest := counting("a", "Instance"), counting("a", "Machine")
	latest.Generation = 2
	latest.Status.Effective = effective(t, former)
	broken := faultyPolicy(*latest)
	broken.Status.Effective = latest.Status.Effective
	unreadable := latest.DeepCopy()
	unreadable.Spec = broken.Spec
	former.Spec = faultyPolicy(*former).Spec
	unreadable.Status.Effective = effective(t, former)
	for name, p := range map[string]*policyObject{"known": latest, "broken": &broken, "former unreadable": unreadable} {
		t.Run(name, func(t *testing.T) {
			c := New()
			registerKinds(c)

			c.SetPolicy(p)

			got := map[string]bool{}
			for _, kind := range []string{"Instance", "Machine", "Volume"} {
				got[kind] = c.Counted(schema.GroupVersionKind{Version: "v1", Kind: kind}).IsSettled
			}
			if diff := cmp.Diff(map[string]bool{"Instance": false, "Machine": false, "Volume": true}, got); diff != "" {
				t.Errorf("settled (-want +got):\n%s", diff)
			}
		})
	}
}

// The version of a policy that a request rests on is the first one by which its objects count, in the catalog's
// knowledge: until an observation covers it, the request counts beside its object.
func TestPolicyVersion(t *testing.T) {
	at := func(resourceVersion string, changes ...func(*policyObject)) *policyObject {
		p := counting("a", "Instance")
		p.ResourceVersion = resourceVersion
		for _, change := range changes {
			change(p)
		}
		return p
	}
	isConfirmed := func(p *policyObject) { *p = *withReady(p, metav1.ConditionTrue, effective(t, p)) }
	isChanged := func(p *policyObject) { p.Generation = 2 }
	isRejected := func(p *policyObject) {
		*p = *withReady(p, metav1.ConditionFalse, effective(t, counting("a", "Instance")))
	}
	isOther := func(p *policyObject) { p.UID = "another" }

	tests := map[string]struct {
		reason string
		given  []*policyObject
		want   uint64
	}{
		"none": {"the policy is unknown", nil, 0},
		"new":  {"nothing counted by it before", []*policyObject{at("5")}, 5},
		"other writes of the status": {"the objects count as before",
			[]*policyObject{at("5", isConfirmed), at("8", isConfirmed), at("9", isConfirmed)}, 5},
		"late start":     {"a new process knows no earlier version", []*policyObject{at("9", isConfirmed)}, 9},
		"changed":        {"the generation is another one", []*policyObject{at("5"), at("8", isChanged)}, 8},
		"changed, later": {"the status is another one", []*policyObject{at("5"), at("8", isChanged), at("9", isChanged)}, 8},
		"effective later": {"others counted by the former generation at 9, and knew better",
			[]*policyObject{at("5", isConfirmed), at("8", isChanged, isRejected), at("9", isChanged, isRejected), at("12", isChanged, isConfirmed)}, 12},
		"created again": {"the generations of another policy begin again", []*policyObject{at("5"), at("8", isOther)}, 8},
		"from a file":   {"it has no version", []*policyObject{at("")}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			registerKinds(c)
			for _, object := range tt.given {
				c.SetPolicy(object)
			}

			if got := c.PolicyVersion("a"); got != tt.want {
				t.Errorf("%s: the version is %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}

// A replica that knows exactly the policies of a list has seen everything up to the version of the list.
func TestConfirmPolicies(t *testing.T) {
	at := func(name, resourceVersion string) policyObject {
		p := policyAt(name, 1)
		p.ResourceVersion = resourceVersion
		return p
	}
	recreated := at("b", "7")
	recreated.UID = "another"
	tests := map[string]struct {
		reason string
		live   []policyObject
		want   bool
	}{
		"the same":  {"nothing has happened since", []policyObject{at("a", "5"), disabled(at("b", "7"))}, true},
		"changed":   {"a change is on its way", []policyObject{at("a", "8"), disabled(at("b", "7"))}, false},
		"more":      {"a new policy is on its way", []policyObject{at("a", "5"), at("b", "7"), at("c", "8")}, false},
		"fewer":     {"a deletion is on its way", []policyObject{at("a", "5")}, false},
		"other":     {"a deletion and a new policy are on their way", []policyObject{at("a", "5"), at("c", "7")}, false},
		"recreated": {"it is another policy", []policyObject{at("a", "5"), recreated}, false},
		"removed":   {"the catalog knows of the deletion of c", []policyObject{at("a", "5"), at("b", "7"), at("c", "6")}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			a, b, removed := at("a", "5"), disabled(at("b", "7")), at("c", "6")
			c.SetPolicy(&a)
			c.SetPolicy(&b)
			c.SetPolicy(&removed)
			c.RemovePolicy("c")

			got := c.ConfirmPolicies(tt.live, 20)

			wantVersion := uint64(0)
			if tt.want {
				wantVersion = 20
			}
			if got != tt.want || c.PoliciesVersion() != wantVersion {
				t.Errorf("%s: got %t and version %d, want %t and %d", tt.reason, got, c.PoliciesVersion(), tt.want, wantVersion)
			}
		})
	}
}

// An older list confirms what a replica knows, and never takes its version back.
func TestConfirmOlderList(t *testing.T) {
	c := New()
	p := policyAt("a", 1)
	p.ResourceVersion = "9"
	c.SetPolicy(&p)
	if !c.ConfirmPolicies([]policyObject{p}, 9) || !c.ConfirmPolicies([]policyObject{p}, 3) || c.PoliciesVersion() != 9 {
		t.Errorf("the version is %d, want 9", c.PoliciesVersion())
	}
}
