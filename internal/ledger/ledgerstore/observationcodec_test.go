package ledgerstore

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Observed demand and awaited changes come back from storage as they went in.
func TestObservedDemandIsStoredWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := ledger.Snapshot{Sequence: 2}
		versions := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(0, math.MaxInt64))
		version := func(name string) ledger.Version { return ledger.Version(versions.Draw(t, name)) }
		for _, kind := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"pods", "jobs.batch", `"<`}), 0, 3, rapid.ID).Draw(t, "kinds") {
			o := ledger.Observation{Kind: kind, Basis: ledger.Basis{Objects: version("objects"), Namespaces: version("namespaces"), Policies: version("policies")}}
			for _, resourceType := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"cpu", "memory"}), 0, 2, rapid.ID).Draw(t, "types") {
				o.Demands = append(o.Demands, ledger.Demand{
					ResourceType: resourceType, Dimensions: drawDimensions(t),
					Amount:  ledger.Amount(rapid.Int64Range(0, math.MaxInt64).Draw(t, "amount")),
					Objects: rapid.Int64Range(1, ledger.CountMax).Draw(t, "count"),
				})
			}
			want.Observations = append(want.Observations, o)
		}
		if rapid.Bool().Draw(t, "awaits") {
			want.Reservations = append(want.Reservations, ledger.Reservation{
				Key: "policy/object", Sequence: 2, Charges: []ledger.Charge{{ResourceType: "cpu", Amount: 1}},
				Awaits: &ledger.Awaited{Kind: "pods", ID: "uid", After: version("after"), Namespaces: version("namespaces"), Policies: version("policies")},
			})
		}

		body, err := json.Marshal(specOf(quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}, want))
		if err != nil {
			t.Fatal(err)
		}
		var stored quotav1alpha1.ConsumerLedgerSpec
		if err := json.Unmarshal(body, &stored); err != nil {
			t.Fatal(err)
		}
		got, err := SnapshotOf(&stored)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b ledger.Dimensions) bool { return a == b })); diff != "" {
			t.Errorf("the ledger (-written +read):\n%s", diff)
		}
		hasObserved := len(want.Observations)+len(want.Reservations) > 0
		if isLatest := stored.Format == formatOfObservations; isLatest != hasObserved {
			t.Errorf("the format is %d of %s", stored.Format, body)
		}
	})
}

func drawDimensions(t *rapid.T) ledger.Dimensions {
	region := rapid.SampledFrom([]string{"", "eu"}).Draw(t, "region")
	if region == "" {
		return ledger.Dimensions{}
	}
	dimensions, err := ledger.NewDimensions(map[string]string{"region": region})
	if err != nil {
		t.Fatal(err)
	}
	return dimensions
}

func TestFormatOfObservedDemand(t *testing.T) {
	tests := map[string]struct {
		reason   string
		snapshot ledger.Snapshot
		want     int64
	}{
		"nothing": {"an earlier version reads a ledger of claims", ledger.Snapshot{Reservations: []ledger.Reservation{{Key: "k"}}}, 1},
		"observation": {
			"an earlier version would lose the versions, although there is no demand",
			ledger.Snapshot{Observations: []ledger.Observation{{Kind: "pods"}}}, formatOfObservations,
		},
		"awaited change": {
			"an earlier version would look for the claim of the reservation",
			ledger.Snapshot{Slices: []ledger.Slice{{Holder: "a"}}, Reservations: []ledger.Reservation{{Key: "k", Awaits: &ledger.Awaited{Kind: "pods", ID: "u"}}}},
			formatOfObservations,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := formatOf(&tt.snapshot); got != tt.want || got > quotav1alpha1.ConsumerLedgerFormat {
				t.Errorf("%s: got %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}

// Impossible observed demand is an error.
func TestObservedDemandOutOfRange(t *testing.T) {
	tests := map[string]struct {
		damage func(*quotav1alpha1.LedgerObservation, *quotav1alpha1.LedgerAwaited)
		want   string
	}{
		"objects":    {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) { o.ObjectsVersion = -1 }, "observation of pods: version -1 is negative"},
		"namespaces": {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) { o.NamespacesVersion = -1 }, "observation of pods: version -1 is negative"},
		"policies": {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) {
			o.PoliciesVersion = math.MinInt64
		}, "is negative"},
		"amount": {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) { o.Demands[0].Amount = -1 }, "demand for cpu: -1 by 2 objects is out of range"},
		"count":  {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) { o.Demands[0].Objects = 0 }, "demand for cpu: 3 by 0 objects is out of range"},
		"dimensions": {func(o *quotav1alpha1.LedgerObservation, _ *quotav1alpha1.LedgerAwaited) {
			o.Demands[0].Dimensions = map[string]string{"": "x"}
		}, "demand for cpu: a dimension key is empty"},
		"after":                   {func(_ *quotav1alpha1.LedgerObservation, a *quotav1alpha1.LedgerAwaited) { a.After = -7 }, "reservation key: version -7 is negative"},
		"namespaces of a request": {func(_ *quotav1alpha1.LedgerObservation, a *quotav1alpha1.LedgerAwaited) { a.Namespaces = -1 }, "reservation key: version -1 is negative"},
		"policies of a request":   {func(_ *quotav1alpha1.LedgerObservation, a *quotav1alpha1.LedgerAwaited) { a.Policies = -1 }, "reservation key: version -1 is negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			observation := quotav1alpha1.LedgerObservation{Kind: "pods", ObjectsVersion: 5, Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "cpu", Amount: 3, Objects: 2}}}
			awaited := quotav1alpha1.LedgerAwaited{Kind: "pods", ID: "uid"}
			tt.damage(&observation, &awaited)

			_, err := SnapshotOf(&quotav1alpha1.ConsumerLedgerSpec{
				Observations: []quotav1alpha1.LedgerObservation{observation},
				Reservations: []quotav1alpha1.LedgerReservation{{Key: "key", Sequence: 1, Awaits: &awaited}},
			})

			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A repeated record of an admission is one of the same request only if it awaits the same change.
func TestIsSameRequest(t *testing.T) {
	awaited := func(after ledger.Version) *ledger.Awaited {
		return &ledger.Awaited{Kind: "pods", ID: "uid", After: after}
	}
	tests := map[string]struct {
		reason string
		a, b   *ledger.Awaited
		want   bool
	}{
		"claims":         {"no observation ends either", nil, nil, true},
		"equal changes":  {"storage returns a copy", awaited(3), awaited(3), true},
		"later version":  {"another update of the object was under review", awaited(3), awaited(4), false},
		"claim and none": {"an observation ends only the one", awaited(3), nil, false},
		"none and claim": {"an observation ends only the other", nil, awaited(3), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isSameRequest(&ledger.Reservation{Awaits: tt.a}, &ledger.Reservation{Awaits: tt.b}); got != tt.want {
				t.Errorf("%s: got %t", tt.reason, got)
			}
		})
	}
}
