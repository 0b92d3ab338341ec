package grant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
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
			active, results := r.evaluate(tt.grants, noon, nil)
			var names []string
			for _, grant := range active {
				names = append(names, grant.Name)
			}
			if diff := cmp.Diff(tt.active, names); diff != "" {
				t.Errorf("%s: active (-want +got):\n%s", tt.reason, diff)
			}
			if len(results) != len(tt.grants) {
				t.Errorf("%s: %d results for %d grants, so that some are not reported", tt.reason, len(results), len(tt.grants))
			}
			for _, v := range results {
				want := tt.problems[v.grant.Name]
				isActive := v.active.Status == metav1.ConditionTrue
				if isActive != (want == "") || !strings.Contains(v.active.Message, want) {
					t.Errorf("%s: grant %s has the condition %+v, want it to say %q", tt.reason, v.grant.Name, v.active, want)
				}
			}
		})
	}
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// hours returns the period from some hours after noon to others. 0 is no bound.
func hours(notBefore, notAfter int) quotav1alpha1.Period {
	var p quotav1alpha1.Period
	if notBefore != 0 {
		p.NotBefore = &metav1.Time{Time: noon.Add(time.Duration(notBefore) * time.Hour)}
	}
	if notAfter != 0 {
		p.NotAfter = &metav1.Time{Time: noon.Add(time.Duration(notAfter) * time.Hour)}
	}
	return p
}

func TestPeriods(t *testing.T) {
	tests := map[string]struct {
		whole  quotav1alpha1.Period
		parts  []quotav1alpha1.Period // each of 1
		amount ledger.Amount
		reason string
		says   string
		look   time.Duration // until the next look, with a notice of an hour
	}{
		"no period":              {quotav1alpha1.Period{}, []quotav1alpha1.Period{{}}, 1, "GrantActive", "ResourceGrant is active", 0},
		"in its period":          {hours(-1, 3), []quotav1alpha1.Period{{}}, 1, "GrantActive", "until 2030-01-01T15:00:00Z", 2 * time.Hour},
		"near its end":           {hours(-1, 1), []quotav1alpha1.Period{{}}, 1, "GrantActive", "until 2030-01-01T13:00:00Z", time.Hour},
		"before":                 {hours(1, 2), []quotav1alpha1.Period{{}}, 0, "NotYetValid", "counts from 2030-01-01T13:00:00Z on", time.Hour},
		"after":                  {hours(-2, -1), []quotav1alpha1.Period{{}}, 0, "Expired", "bursar extend", 0},
		"a part is over":         {hours(0, 9), []quotav1alpha1.Period{{}, hours(0, -1)}, 1, "GrantActive", "1 of 2 allowances counts now, until 2030-01-01T21:00:00Z", 8 * time.Hour},
		"a part is to come":      {quotav1alpha1.Period{}, []quotav1alpha1.Period{{}, hours(2, 0)}, 1, "GrantActive", "1 of 2 allowances counts now", 2 * time.Hour},
		"between two parts":      {quotav1alpha1.Period{}, []quotav1alpha1.Period{hours(0, -1), hours(1, 0)}, 0, "NotYetValid", "from 2030-01-01T13:00:00Z", time.Hour},
		"a part after the whole": {hours(0, 1), []quotav1alpha1.Period{hours(2, 3)}, 0, "Expired", "bursar extend", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			grant := grantOf("a", 1)
			grant.Spec.Period = tt.whole
			grant.Spec.Allowances = nil
			for _, p := range tt.parts {
				allowance := grantOf("a", 1).Spec.Allowances[0]
				allowance.Period = p
				grant.Spec.Allowances = append(grant.Spec.Allowances, allowance)
			}
			r := &Reconciler{Catalog: registered{"projects"}, Clock: stopped(noon), ExpiryNotice: time.Hour}
			active, results := r.evaluate([]*quotav1alpha1.ResourceGrant{grant}, noon, nil)
			if amount := givenBy(active); amount != tt.amount {
				t.Errorf("%d is granted, want %d", amount, tt.amount)
			}
			if got := results[0].active; got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) {
				t.Errorf("got the reason %s (%s), want %s, saying %q", got.Reason, got.Message, tt.reason, tt.says)
			}
			if got := r.nextLook(results); got != min(tt.look, lookAgain) {
				t.Errorf("the next look is in %s, want %s", got, min(tt.look, lookAgain))
			}
		})
	}
}

// The reconciler does not miss an end of a grant between the evaluation and the end of a reconcile.
func TestLookAfterASlowWrite(t *testing.T) {
	grant := grantOf("a", 1)
	grant.Spec.NotAfter = &metav1.Time{Time: noon}
	r := &Reconciler{Catalog: registered{"projects"}, Clock: stopped(noon.Add(time.Second))}
	_, results := r.evaluate([]*quotav1alpha1.ResourceGrant{grant}, noon.Add(-time.Millisecond), nil)
	if look := r.nextLook(results); look != time.Millisecond {
		t.Errorf("the next look is in %s, want at once", look)
	}
}

// Between two looks nothing changes by itself: whenever an allowance begins or ends, the controller looks.
func TestPeriodsOverTime(t *testing.T) {
	const seconds = 200
	for world := range uint64(300) {
		random := rand.New(rand.NewPCG(1, world))
		bound := func() *metav1.Time {
			if random.IntN(3) == 0 {
				return nil
			}
			return &metav1.Time{Time: noon.Add(time.Duration(random.IntN(seconds)) * time.Second)}
		}
		var grants []*quotav1alpha1.ResourceGrant
		for i := range 4 {
			grant := grantOf(fmt.Sprint(i), 1)
			grant.Spec.Allowances = append(grant.Spec.Allowances, *grant.Spec.Allowances[0].DeepCopy())
			for _, p := range []*quotav1alpha1.Period{&grant.Spec.Period, &grant.Spec.Allowances[0].Period, &grant.Spec.Allowances[1].Period} {
				p.NotBefore, p.NotAfter = bound(), bound()
			}
			grants = append(grants, grant)
		}
		look := noon
		var granted ledger.Amount
		for now := noon; now.Before(noon.Add(seconds * time.Second)); now = now.Add(time.Second) {
			r := &Reconciler{Catalog: registered{"projects"}, Clock: stopped(now), ExpiryNotice: 7 * time.Second}
			if !now.Before(look) {
				active, results := r.evaluate(grants, now, nil)
				granted = givenBy(active)
				if look = now.Add(r.nextLook(results)); look.Equal(now) {
					look = noon.Add(seconds * time.Second)
				}
			}
			var want ledger.Amount
			for _, grant := range grants {
				for _, a := range grant.Spec.Allowances {
					if !outside(grant.Spec.Period, now) && !outside(a.Period, now) {
						want++
					}
				}
			}
			if granted != want {
				t.Fatalf("world %d, %s after noon: %d is granted, want %d", world, now.Sub(noon), granted, want)
			}
		}
	}
}

// outside reports whether a time is outside a period.
func outside(p quotav1alpha1.Period, now time.Time) bool {
	return p.NotBefore != nil && now.Before(p.NotBefore.Time) || p.NotAfter != nil && !now.Before(p.NotAfter.Time)
}

func givenBy(active []ledger.Grant) ledger.Amount {
	var amount ledger.Amount
	for _, g := range active {
		for _, a := range g.Allowances {
			amount += a.Amount
		}
	}
	return amount
}

// stopped is a clock with only one time.
type stopped time.Time

func (s stopped) Now() time.Time { return time.Time(s) }

func TestEntrySumsBuckets(t *testing.T) {
	entry, err := ledgerstore.GrantOf(grantOf("a", 1, 2, 4), time.Now())
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
