package grant

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// registered are the resource types with an active registration.
type registered []string

func (r registered) CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error {
	for _, allowance := range spec.Allowances {
		if !strings.Contains(strings.Join(r, " "), allowance.ResourceType) {
			return fmt.Errorf("resource type %q has no active ResourceRegistration", allowance.ResourceType)
		}
	}
	return nil
}

func (r registered) CheckNew(...string) error { return nil }

func (r registered) Registration(string) *catalog.Registration { return nil }

// grantOf makes a grant of projects from the amounts of its buckets.
func grantOf(name string, amounts ...int64) *quotav1alpha1.ResourceGrant {
	allowance := quotav1alpha1.Allowance{ResourceType: "projects"}
	for _, amount := range amounts {
		allowance.Buckets = append(allowance.Buckets, quotav1alpha1.Bucket{Amount: amount})
	}
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme", UID: types.UID("uid-" + name), Generation: 3},
		Spec:       quotav1alpha1.ResourceGrantSpec{Allowances: []quotav1alpha1.Allowance{allowance}},
	}
}

func TestEvaluate(t *testing.T) {
	unknown := grantOf("unknown", 1)
	unknown.Spec.Allowances[0].ResourceType = "castles"
	selective := grantOf("selective", 1)
	selective.Spec.Allowances[0].DimensionSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: "Resembles"}},
	}
	long := func(name string) *quotav1alpha1.ResourceGrant {
		grant := grantOf(name, 1)
		for i := range 700 {
			grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{ResourceType: "projects",
				DimensionSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": fmt.Sprint(i % 2)}}})
		}
		return grant
	}
	tests := map[string]struct {
		reason   string
		grants   []*quotav1alpha1.ResourceGrant
		active   []string          // names
		problems map[string]string // a part of the message, by name
	}{
		"no grants":      {reason: "a consumer whose last grant is gone has no limits"},
		"all fit":        {reason: "every grant of a registered type counts", grants: []*quotav1alpha1.ResourceGrant{grantOf("a", 1, 2), grantOf("b", 0)}, active: []string{"a", "b"}},
		"not registered": {reason: "one bad grant leaves the others", grants: []*quotav1alpha1.ResourceGrant{unknown, grantOf("a", 1)}, active: []string{"a"}, problems: map[string]string{"unknown": "castles"}},
		"bad selector":   {reason: "a selector that cannot be read matches nothing", grants: []*quotav1alpha1.ResourceGrant{selective}, problems: map[string]string{"selective": "allowance of projects"}},
		"no room in the ledger": {reason: "those that no longer fit give way to the older ones",
			grants: []*quotav1alpha1.ResourceGrant{grantOf("a", 1), long("b"), long("c"), long("d"), grantOf("e", 1)}, active: []string{"a", "b", "c", "e"},
			problems: map[string]string{"d": "at most 262144 are allowed: merge some of them"}},
		"too large alone": {reason: "the amounts of a grant add up to an amount",
			grants: []*quotav1alpha1.ResourceGrant{grantOf("a", math.MaxInt64, 1)}, problems: map[string]string{"a": "add up to more than"}},
		"too large together": {reason: "those that no longer fit give way to the older ones; a smaller one still fits",
			grants: []*quotav1alpha1.ResourceGrant{grantOf("a", math.MaxInt64-5), grantOf("b", 6), grantOf("c", 5), grantOf("d", 1)},
			active: []string{"a", "c"}, problems: map[string]string{"b": "add up to more than", "d": "add up to more than"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Catalog: registered{"projects"}}
			active, results := r.evaluate(tt.grants)
			var names []string
			for _, grant := range active {
				names = append(names, grant.Name)
			}
			if diff := cmp.Diff(tt.active, names); diff != "" {
				t.Errorf("%s: active (-want +got):\n%s", tt.reason, diff)
			}
			if len(results) != len(tt.grants) {
				t.Errorf("%s: %d verdicts for %d grants, so that some are not reported", tt.reason, len(results), len(tt.grants))
			}
			for _, v := range results {
				want := tt.problems[v.grant.Name]
				if (v.reason == "") != (want == "") || !strings.Contains(v.reason, want) {
					t.Errorf("%s: grant %s has the flaw %q, want it to name %q", tt.reason, v.grant.Name, v.reason, want)
				}
			}
		})
	}
}

func TestEntrySumsBuckets(t *testing.T) {
	entry, err := ledgerstore.GrantOf(grantOf("a", 1, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	if got := entry.Allowances[0].Amount; got != 7 {
		t.Errorf("the allowance is %d, want 7: its buckets add up", got)
	}
	if entry.Generation != 3 || entry.UID != "uid-a" || entry.Namespace != "acme" {
		t.Errorf("the entry %+v does not say which grant it is from, and in which generation", entry)
	}
}

func TestDiffers(t *testing.T) {
	tests := map[string]struct {
		reason     string
		status     metav1.ConditionStatus
		registered registered
		want       bool
	}{
		"new":                    {"a grant that was never judged is to be", "", registered{"projects"}, true},
		"active and registered":  {"other registrations are no concern", metav1.ConditionTrue, registered{"projects"}, false},
		"active, not registered": {"its amounts must leave the ledger", metav1.ConditionTrue, nil, true},
		"not active":             {"it may become so, or for another reason not", metav1.ConditionFalse, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			grant := grantOf("a", 1)
			if tt.status != "" {
				grant.Status.Gives = "projects=1"
				grant.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: tt.status}}
			}
			if got := (&Reconciler{Catalog: tt.registered}).differs(grant); got != tt.want {
				t.Errorf("got %t, want %t: %s", got, tt.want, tt.reason)
			}
		})
	}
}
