package catalog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func policyAt(name string, generation int64) quotav1alpha1.ClaimCreationPolicy {
	p := instances(generation)
	p.Name, p.UID = name, types.UID(name)
	return *p
}

func disabled(p quotav1alpha1.ClaimCreationPolicy) quotav1alpha1.ClaimCreationPolicy {
	p.Spec.Enabled = new(bool)
	return p
}

func faultyPolicy(p quotav1alpha1.ClaimCreationPolicy) quotav1alpha1.ClaimCreationPolicy {
	p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "trigger.metadata.name =="}}
	return p
}

// TestVersionIsThatOfAList proves that a catalog has the version of a list after it received the objects of the list
// one by one.
func TestVersionIsThatOfAList(t *testing.T) {
	c := New()
	other := policyAt("b", 7)
	policies := []quotav1alpha1.ClaimCreationPolicy{policyAt("a", 2), other, faultyPolicy(policyAt("c", 1)), disabled(policyAt("d", 3))}
	inactive := registrationAt("disks", 2, metav1.ConditionFalse)
	registrations := []quotav1alpha1.ResourceRegistration{*registrationAt("cpus", 1, metav1.ConditionTrue), *inactive}
	before := policyAt("a", 1)
	c.SetPolicy(&before)
	for i := range policies {
		c.SetPolicy(&policies[i])
	}
	for i := range registrations {
		c.SetRegistration(&registrations[i])
	}
	if got, want := c.Version(), VersionOf(policies, registrations); got != want || got == (Version{}) {
		t.Errorf("the catalog is at %s, its objects make %s", got, want)
	}
	c.RemovePolicy("b")
	c.RemoveRegistration("cpus")
	if got, want := c.Version(), VersionOf(policies[2:], nil); got == want {
		t.Errorf("without b and cpus, but with a, the catalog is at the version without a")
	}
	if got, want := c.Version(), VersionOf([]quotav1alpha1.ClaimCreationPolicy{policies[2], policies[0]}, registrations[1:]); got != want {
		t.Errorf("without b and cpus, the catalog is at %s, its objects make %s", got, want)
	}
}

func TestHasEarlierVersions(t *testing.T) {
	a1, a2, b := policyAt("a", 1), policyAt("a", 2), policyAt("b", 1)
	list := func(policies ...quotav1alpha1.ClaimCreationPolicy) Version { return VersionOf(policies, nil) }
	c := New()
	c.SetPolicy(&a1)
	for name, tt := range map[string]struct {
		reason  string
		version Version
		want    bool
	}{
		"nothing":  {"it was there before anything was declared", Version{}, true},
		"now":      {"it is there", list(a1), true},
		"later":    {"it was not told of a change", list(a2), false},
		"more":     {"or of another policy", list(a1, b), false},
		"replaced": {"or that one came for another", list(b), false},
		"activated": {"or of a registration", VersionOf(
			[]quotav1alpha1.ClaimCreationPolicy{a1}, []quotav1alpha1.ResourceRegistration{*registrationAt("cpus", 1, metav1.ConditionTrue)}), false},
	} {
		if got := c.Has(tt.version); got != tt.want {
			t.Errorf("%s: %s: got %t, want %t", name, tt.reason, got, tt.want)
		}
	}
	c.SetPolicy(&a2)
	if !c.Has(list(a1)) || !c.Has(list(a2)) {
		t.Error("it is past what it was told of before")
	}
	c.MarkPassed(list(b))
	if !c.Has(list(b)) || c.Version() != list(a2) {
		t.Error("what it has passed it knows of, and it stays where it is")
	}
}

// TestActiveAgainIsAnotherVersion: nothing counts between two active periods.
func TestActiveAgainIsAnotherVersion(t *testing.T) {
	first, again := registrationAt("cpus", 1, metav1.ConditionTrue), registrationAt("cpus", 1, metav1.ConditionTrue)
	first.ResourceVersion, again.ResourceVersion = "5", "7"
	c := New()
	c.SetRegistration(first)
	c.SetRegistration(registrationAt("cpus", 1, metav1.ConditionFalse))
	if c.Has(VersionOf(nil, []quotav1alpha1.ResourceRegistration{*again})) {
		t.Error("a catalog in which the registration is not active has the version at which it is active again")
	}
}

func TestParseVersion(t *testing.T) {
	v := Version{Policies: 0xfedcba9876543210, Registrations: 1}
	if got, err := ParseVersion(v.String()); err != nil || got != v {
		t.Errorf("%s is read as %s, %v", v, got, err)
	}
	for _, bad := range []string{"a", "1-2", "fedcba9876543210", v.String() + "0", "FEDCBA9876543210-0000000000000001", "-"} {
		if got, err := ParseVersion(bad); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}
