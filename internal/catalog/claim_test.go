package catalog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// locations is a catalog with t for Projects by location and tier, claimed by Instances.
func locations() *Catalog {
	c := New()
	r := registrationAt("cpus", 1, metav1.ConditionTrue)
	r.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: "example.com", Kind: "Project"}
	r.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: "Instance"}}
	r.Spec.Dimensions = []string{"location", "tier", "example.com/model"}
	c.SetRegistration(r)
	return c
}

var project = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Name: "web"}

func TestDimensionsOfClaims(t *testing.T) {
	tests := map[string]struct {
		reason     string
		dimensions map[string]string
		want       string
	}{
		"none":    {"a request need not say", nil, ""},
		"some":    {"it may name some", map[string]string{"tier": "gold"}, ""},
		"all":     {"or all", map[string]string{"tier": "gold", "location": "DFW"}, ""},
		"unknown": {"but none that does not exist", map[string]string{"location": "DFW", "zone": "1"}, `resource type "t" has no dimension "zone": add it to spec.dimensions of ResourceRegistration cpus, or request it without it`},
		"part":    {"messages print only the end of a key, so people enter it", map[string]string{"model": "h200"}, `resource type "t" has no dimension "model": did you mean "example.com/model"?`},
		"several": {"each of those is told", map[string]string{"zone": "1", "Tier": "gold"}, `resource type "t" has no dimensions "Tier", "zone": add them to spec.dimensions of ResourceRegistration cpus, or request it without them`},
		"many":    {"a message is not a list", map[string]string{"a": "", "b": "", "c": "", "d": ""}, `resource type "t" has no dimensions "a", "b" and 2 more: add them to spec.dimensions of ResourceRegistration cpus, or request it without them`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := locations().CheckClaim(&quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: project,
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "Instance", Name: "a"},
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1, Dimensions: tt.dimensions}},
			})
			wantError(t, tt.reason, err, tt.want)
		})
	}
}

// TestClaimingKinds looks at claims created directly, and through a policy.
func TestClaimingKinds(t *testing.T) {
	const message = `resource type "t" may not be claimed by Volume: ResourceRegistration cpus does not list it in claimingResources`
	tests := map[string]struct {
		reason           string
		claiming         []quotav1alpha1.ClaimingResource
		direct, ofPolicy string
	}{
		"listed":   {"a kind that is listed may claim", []quotav1alpha1.ClaimingResource{{Kind: "Instance"}, {Kind: "Volume"}}, "", ""},
		"unlisted": {"another may not, whoever makes the claim", []quotav1alpha1.ClaimingResource{{Kind: "Instance"}}, message, message},
		"group":    {"a kind of another group is another kind", []quotav1alpha1.ClaimingResource{{APIGroup: "example.com", Kind: "Volume"}}, message, message},
		"none":     {"where none is listed, people make claims", nil, "", message},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			r := registrationAt("cpus", 1, metav1.ConditionTrue)
			r.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: "example.com", Kind: "Project"}
			r.Spec.ClaimingResources = tt.claiming
			c.SetRegistration(r)
			spec := &quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: project,
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "Volume", Name: "a"},
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1}},
			}
			wantError(t, tt.reason, c.CheckClaim(spec), tt.direct)
			wantError(t, tt.reason, c.CheckPolicyClaim(spec), tt.ofPolicy)
		})
	}
}

func TestDimensionsOfGrants(t *testing.T) {
	requires := func(key string, operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}}
	}
	tests := map[string]struct {
		reason   string
		selector *metav1.LabelSelector
		want     string
	}{
		"none":    {"an allowance need not select", nil, ""},
		"empty":   {"or may select everything", &metav1.LabelSelector{}, ""},
		"known":   {"or by what exists", requires("location", metav1.LabelSelectorOpExists), ""},
		"label":   {"a label is a key", &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "1"}}, `resource type "t" has no dimension "zone": add it to spec.dimensions of ResourceRegistration cpus, or select without it`},
		"unknown": {"so is one that must be absent: it might be mistyped", requires("zone", metav1.LabelSelectorOpDoesNotExist), `resource type "t" has no dimension "zone": add it to spec.dimensions of ResourceRegistration cpus, or select without it`},
		"twice": {"a key is told once", &metav1.LabelSelector{
			MatchLabels:      map[string]string{"zone": "1"},
			MatchExpressions: requires("zone", metav1.LabelSelectorOpExists).MatchExpressions,
		}, `resource type "t" has no dimension "zone": add it to spec.dimensions of ResourceRegistration cpus, or select without it`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := locations().CheckGrant(&quotav1alpha1.ResourceGrantSpec{
				ConsumerRef: project,
				Allowances:  []quotav1alpha1.Allowance{{ResourceType: "t", DimensionSelector: tt.selector}},
			})
			wantError(t, tt.reason, err, tt.want)
		})
	}
}

func wantError(t *testing.T, reason string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", reason, got, want)
	}
}
