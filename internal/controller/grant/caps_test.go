package grant

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// capped is a catalog with projects under caps, and with seats.
type capped struct{ perConsumer, total int64 }

func (capped) CheckGrant(*quotav1alpha1.ResourceGrantSpec) error { return nil }
func (capped) CheckNew(...string) error                          { return nil }

func (c capped) Registration(resourceType string) *catalog.Registration {
	r := &catalog.Registration{Name: resourceType, ResourceType: resourceType, DisplayUnit: "project", Factor: 1}
	if resourceType == "projects" {
		r.MaxPerConsumer, r.MaxTotal = c.perConsumer, c.total
	}
	return r
}

// giving makes a grant of amounts of projects, and of seats.
func giving(name string, projects, seats int64) *quotav1alpha1.ResourceGrant {
	grant := given(projects, name)[0]
	grant.Spec.Allowances = append(grant.Spec.Allowances, *grant.Spec.Allowances[0].DeepCopy())
	grant.Spec.Allowances[1].ResourceType, grant.Spec.Allowances[1].Buckets[0].Amount = "seats", seats
	return grant
}

func inRegion(grant *quotav1alpha1.ResourceGrant, region string) *quotav1alpha1.ResourceGrant {
	grant.Spec.Allowances[0].DimensionSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}
	return grant
}

func TestCaps(t *testing.T) {
	type grants = []*quotav1alpha1.ResourceGrant
	expired := given(9, "a")[0]
	expired.Spec.Period = hours(-2, -1)
	over := &quotav1alpha1.ResourceGrant{}
	given(5, "b")[0].DeepCopyInto(over)
	over.Spec.Allowances = append(over.Spec.Allowances, expired.Spec.Allowances[0])
	over.Spec.Allowances[1].Period = hours(-2, -1)
	tests := map[string]struct {
		reason       string
		caps         capped
		others       ledger.Amount
		grants, held grants
		want         sums
		capped       map[string]string // a part of the message, by name
	}{
		"fits": {reason: "a cap may be reached", caps: capped{10, 10}, grants: append(given(4, "a"), given(6, "b")...), want: sums{"projects": 10}},
		"younger": {
			reason: "the older grant comes first", caps: capped{10, 0}, grants: append(given(6, "a"), given(5, "b")...), want: sums{"projects": 6},
			capped: map[string]string{"b": "the grant asks for 5 projects of projects, and the other grants of Organization acme give 6 projects already: " +
				"maxPerConsumer of ResourceRegistration projects is 10 projects. Ask for at most 4 projects, give less in another grant, or raise maxPerConsumer"},
		},
		"smaller": {
			reason: "a smaller one still fits", caps: capped{10, 0}, grants: append(given(6, "a"), append(given(5, "b"), given(4, "c")...)...),
			want: sums{"projects": 10}, capped: map[string]string{"b": "maxPerConsumer"},
		},
		"held": {
			reason: "what counts already comes before an older grant",
			caps:   capped{10, 0}, grants: append(given(6, "a"), given(5, "b")...), held: given(5, "b"),
			want: sums{"projects": 5}, capped: map[string]string{"a": "give 5 projects already"},
		},
		"lowered": {
			reason: "a lower cap takes nothing away",
			caps:   capped{1, 1}, grants: given(4, "a", "b"), held: given(4, "a", "b"), want: sums{"projects": 8},
		},
		"raised": {
			reason: "a changed grant that does not fit gives what it gave",
			caps:   capped{10, 0}, grants: append(given(11, "a"), given(2, "b")...), held: given(4, "a"),
			want: sums{"projects": 6}, capped: map[string]string{"a": "keeps its amounts from before its change. Ask for at most 10 projects"},
		},
		"lessened": {
			reason: "one that gives less passes, also beyond the cap",
			caps:   capped{1, 1}, grants: given(3, "a"), held: given(4, "a"), want: sums{"projects": 3},
		},
		"room by less": {
			reason: "the room of a younger grant that gives less now is free",
			caps:   capped{10, 0}, grants: append(given(6, "a"), given(4, "b")...), held: given(9, "b"),
			want: sums{"projects": 10},
		},
		"room by end": {
			reason: "an expired grant holds no room",
			caps:   capped{10, 10}, grants: grants{expired, given(8, "b")[0]}, held: given(9, "a"), want: sums{"projects": 8},
		},
		"ended part": {reason: "an expired allowance asks nothing", caps: capped{5, 5}, grants: grants{over}, want: sums{"projects": 5}},
		"regions": {
			reason: "the amounts of all dimensions add up",
			caps:   capped{10, 0}, grants: grants{inRegion(given(6, "a")[0], "x"), inRegion(given(6, "b")[0], "y")},
			want: sums{"projects": 6}, capped: map[string]string{"b": "maxPerConsumer"},
		},
		"other region": {
			reason: "the same amount elsewhere is not more",
			caps:   capped{1, 1}, grants: grants{inRegion(given(6, "a")[0], "x")}, held: given(6, "a"), want: sums{"projects": 6},
		},
		"two types": {
			reason: "a grant counts as a whole or not at all",
			caps:   capped{10, 0}, grants: grants{giving("a", 11, 7)}, capped: map[string]string{"a": "maxPerConsumer"},
		},
		"less and more": {
			reason: "also if it asks less of one type", caps: capped{10, 0}, grants: grants{giving("a", 11, 7)}, held: grants{giving("a", 1, 9)},
			want: sums{"projects": 1, "seats": 9}, capped: map[string]string{"a": "maxPerConsumer"},
		},
		"total": {
			reason: "the other consumers count",
			caps:   capped{0, 10}, others: 7, grants: append(given(2, "a"), given(2, "b")...), want: sums{"projects": 2},
			capped: map[string]string{"b": "the grant asks for 2 projects of projects, and all grants together may give 10 projects: " +
				"maxTotal of ResourceRegistration projects. Give less in another grant, or raise maxTotal; the grant counts as soon as there is room"},
		},
		"total exceeded": {
			reason: "nothing is left under a cap that was lowered", caps: capped{0, 5}, others: 7, grants: given(1, "a"),
			capped: map[string]string{"a": "maxTotal of ResourceRegistration projects. Give less in another grant, or raise maxTotal"},
		},
		"zero": {reason: "a grant of nothing always fits", caps: capped{1, 1}, others: 7, grants: given(0, "a"), want: sums{"projects": 0}},
		"overflow": {
			reason: "sums are not wrapped",
			caps:   capped{10, 10}, grants: append(given(10, "a"), given(math.MaxInt64-10, "b")...), want: sums{"projects": 10}, capped: map[string]string{"b": "maxPerConsumer"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Catalog: tt.caps, Totals: NewTotals()}
			r.Totals.hold(consumerNamed("other"), sums{"projects": tt.others})
			active, results := r.evaluate(tt.grants, noon, r.capsOf(acme, entriesOf(t, tt.held)))
			got := sumsOf(active...)
			if tt.want == nil {
				tt.want = sums{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: what counts (-want +got):\n%s", tt.reason, diff)
			}
			if total := r.Totals.Total("projects", ledger.Dimensions{}); total < got["projects"]+tt.others {
				t.Errorf("%s: room is taken for %d, and %d are given", tt.reason, total, got["projects"]+tt.others)
			}
			for _, v := range results {
				want, isCapped := tt.capped[v.grant.Name]
				if (v.active.Reason == quotav1alpha1.ReasonCapReached) != isCapped || !strings.Contains(v.active.Message, want) {
					t.Errorf("%s: grant %s has the condition %+v, want it to say %q", tt.reason, v.grant.Name, v.active, want)
				}
			}
		})
	}
}

// Room returned by a consumer goes to the waiting ones, in turn.
func TestSettle(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[quotav1alpha1.ConsumerRef]())
	defer q.ShutDown()
	r := &Reconciler{Catalog: capped{0, 10}, Totals: NewTotals(), queue: q}
	look := func(name string, amount int64, held []ledger.Grant) []ledger.Grant {
		consumer := consumerNamed(name)
		active, results := r.evaluate(given(amount, name), noon, r.capsOf(consumer, held))
		r.settle(consumer, active, results)
		return active
	}
	full := look("full", 10, nil)
	for _, name := range []string{"z", "y", "x"} {
		look(name, 4, nil)
	}
	look("large", 9, nil)
	if q.Len() > 0 {
		t.Errorf("%d consumers are looked at again though there is no room", q.Len())
	}
	look("full", 6, full)
	for _, want := range []string{"z", "y", "x"} {
		if q.Len() == 0 {
			t.Fatalf("%s is not looked at again", want)
		}
		if got, _ := q.Get(); got.Name != want {
			t.Errorf("%s is looked at again, want %s", got.Name, want)
		}
	}
	if q.Len() > 0 {
		t.Error("one that does not fit is looked at again")
	}
}
