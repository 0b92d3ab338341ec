package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
)

// TestCompare compares what ledgers have observed with claims of record, in both directions.
func TestCompare(t *testing.T) {
	t.Parallel()
	type sums map[string][]int64 // the amounts of claims by consumer
	entry := func(amount, claims int64) []quotav1alpha1.LedgerDemand {
		return []quotav1alpha1.LedgerDemand{{ResourceType: "maps", Amount: amount, Objects: claims}}
	}
	type ledgers map[string][]quotav1alpha1.LedgerDemand
	for reason, tt := range map[string]struct {
		held     sums
		observed ledgers
		want     string
	}{
		"nothing at all":             {nil, nil, ""},
		"equal":                      {sums{"a": {2}}, ledgers{"a": entry(2, 1)}, ""},
		"less in the ledger":         {sums{"a": {2}}, nil, "the ledger of Organization a has 0 of maps for 0 claims, and its claims hold 2 in 1 claim"},
		"more in the ledger":         {sums{"a": {2}}, ledgers{"a": entry(3, 1)}, "has 3 of maps"},
		"more without a claim":       {sums{"a": {2}}, ledgers{"a": entry(2, 1), "b": entry(5, 2)}, "the ledger of Organization b has 5 of maps for 2 claims"},
		"the same for fewer claims":  {sums{"a": {1, 1}}, ledgers{"a": entry(2, 1)}, "has 2 of maps for 1 claim, and its claims hold 2 in 2 claims"},
		"the first of several in it": {sums{"b": {1}, "a": {1}}, nil, "Organization a"},
	} {
		r, observed, demanded := restorer{agreed: map[balance]bool{}}, use{}, use{}
		of := func(name string) quotav1alpha1.ConsumerRef {
			return quotav1alpha1.ConsumerRef{Kind: "Organization", Name: name}
		}
		for name, demands := range tt.observed {
			spec := &quotav1alpha1.ConsumerLedgerSpec{ConsumerRef: of(name), Observations: []quotav1alpha1.LedgerObservation{
				{Kind: inventory.Claims, ObjectsVersion: 5, Demands: demands}, {Kind: "v1/ConfigMap", ObjectsVersion: 5, Demands: entry(9, 9)},
			}}
			if _, err := observed.addObserved(spec); err != nil {
				t.Fatal(err)
			}
		}
		for name, amounts := range tt.held {
			for i, amount := range amounts {
				if err := demanded.addOfRecord(granted(of(name), fmt.Sprint(name, "-", i), amount)); err != nil {
					t.Fatal(err)
				}
			}
		}

		differing, err := r.compare(observed, demanded)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", reason, err, tt.want)
		}
		if again, err := r.compare(observed, demanded); err == nil != (len(differing) == 0) || !slices.Equal(again, differing) {
			t.Errorf("%s: %v differ, and then %v with %v", reason, differing, again, err)
		}

		maps.Copy(demanded, observed)
		for _, consumer := range differing { // as of another version it agrees
			if _, err := r.compare(demanded.of(consumer), demanded.of(consumer)); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		}
		if _, err := r.compare(use{}, demanded); err != nil {
			t.Errorf("%s: once each has agreed: %v", reason, err)
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
