package restore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/tally"
	"github.com/bursar/bursar/internal/inventory"
)

// TestCompare compares ledgers with claims in both directions.
func TestCompare(t *testing.T) {
	t.Parallel()
	type sums map[string][]int64 // the amounts of claims by consumer
	entry := func(amount, claims int64) quotav1alpha1.ConsumerLedgerSpec {
		return quotav1alpha1.ConsumerLedgerSpec{Used: []quotav1alpha1.LedgerUsage{{ResourceType: "maps", Amount: amount, Claims: claims}}}
	}
	type ledgers map[string]quotav1alpha1.ConsumerLedgerSpec
	for reason, tt := range map[string]struct {
		held     sums
		recorded ledgers
		want     string
	}{
		"nothing at all":             {nil, nil, ""},
		"equal":                      {sums{"a": {2}}, ledgers{"a": entry(2, 1)}, ""},
		"an empty balance":           {nil, ledgers{"a": entry(0, 0)}, ""},
		"less in the ledger":         {sums{"a": {2}}, nil, "the ledger of Organization a has 0 of maps for 0 claims, and its claims hold 2 in 1 claim"},
		"more in the ledger":         {sums{"a": {2}}, ledgers{"a": entry(3, 1)}, "has 3 of maps"},
		"more without a claim":       {sums{"a": {2}}, ledgers{"a": entry(2, 1), "b": entry(5, 2)}, "the ledger of Organization b has 5 of maps for 2 claims"},
		"the same for fewer claims":  {sums{"a": {1, 1}}, ledgers{"a": entry(2, 1)}, "has 2 of maps for 1 claim, and its claims hold 2 in 2 claims"},
		"the first of several in it": {sums{"b": {1}, "a": {1}}, nil, "Organization a"},
		"a release under way":        {sums{"a": {2}}, ledgers{"a": {Released: []string{"a-0"}}}, ""},
	} {
		r, tallies := restorer{agreed: map[quotav1alpha1.ConsumerRef]bool{}}, map[quotav1alpha1.ConsumerRef]*tally.Tally{}
		of := func(name string) quotav1alpha1.ConsumerRef {
			return quotav1alpha1.ConsumerRef{Kind: "Organization", Name: name}
		}
		for name, spec := range tt.recorded {
			tally, err := tally.New(&spec)
			if err != nil {
				t.Fatal(err)
			}
			tallies[of(name)] = tally
		}
		for name, amounts := range tt.held {
			for i, amount := range amounts {
				if err := addTo(tallies, granted(of(name), fmt.Sprint(name, "-", i), amount)); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := r.compare(tallies)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", reason, err, tt.want)
		}
	}
}

// TestCompareDirect compares a ledger with a directly created claim, which the ledger observes.
func TestCompareDirect(t *testing.T) {
	t.Parallel()
	consumer := quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "a"}
	claim := granted(consumer, "c", 2)
	claim.Labels, claim.Annotations = nil, nil
	for observed, want := range map[int64]string{2: "", 3: "has 3 of maps for 1 claim, and its claims hold 2 in 1 claim"} {
		r := restorer{agreed: map[quotav1alpha1.ConsumerRef]bool{}}
		recorded, err := tally.New(&quotav1alpha1.ConsumerLedgerSpec{Observations: []quotav1alpha1.LedgerObservation{{
			Kind: inventory.Claims, ObjectsVersion: 5, Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "maps", Amount: observed, Objects: 1}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		tallies := map[quotav1alpha1.ConsumerRef]*tally.Tally{consumer: recorded}
		if err := addTo(tallies, claim); err != nil {
			t.Fatal(err)
		}
		err = r.compare(tallies)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %d observed: got %v, want %q", observed, err, want)
		}
	}
}

func granted(consumer quotav1alpha1.ConsumerRef, uid string, amount int64) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(uid), Labels: map[string]string{quotav1alpha1.LabelAutoCreated: "true"},
			Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: "object of " + uid},
		},
		Spec:   quotav1alpha1.ResourceClaimSpec{ConsumerRef: consumer, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "maps", Amount: amount}}},
		Status: quotav1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}},
	}
}

// TestRestAfter bounds the share of the time for looks at the server.
func TestRestAfter(t *testing.T) {
	t.Parallel()
	for look, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 2 * time.Second: 20 * time.Second, time.Minute: 36 * time.Second,
	} {
		if got := restAfter(look, 6*time.Minute); got != want {
			t.Errorf("after a look of %s the rest is %s, want %s", look, got, want)
		}
	}
}
