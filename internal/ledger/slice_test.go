package ledger_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
)

const cpu = "compute/cpu"

func withLimit(t *testing.T, amount ledger.Amount) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	allowances := []ledger.Allowance{{ResourceType: cpu, Amount: amount}}
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Name: "g", Allowances: allowances}); err != nil {
		t.Fatal(err)
	}
	return l
}

func sliceOf(holder string, amount ledger.Amount) ledger.Slice {
	return ledger.Slice{Holder: holder, Amounts: map[string]ledger.Amount{cpu: amount}}
}

func reserved(key string, amount ledger.Amount) ledger.Reservation {
	return ledger.Reservation{Key: key, Charges: []ledger.Charge{{ResourceType: cpu, Amount: amount}}}
}

func TestSlice(t *testing.T) {
	l := withLimit(t, 100)
	if !l.SetSlice(sliceOf("a", 40)) || !l.SetSlice(sliceOf("b", 10)) {
		t.Fatal("a slice within the limit does not fit")
	}
	if d := l.Reserve(reserved("p/1", 51)); d.Code != ledger.Exceeded || d.Shortages[0].Available != 50 {
		t.Errorf("slices do not count in a decision: %+v", d)
	}
	if account := l.Account(cpu); account.Reserved != 0 || account.Available != 100 {
		t.Errorf("slices are in use: %+v", account)
	}
	trial := l.Begin()
	l.DropSlices("b")
	if d := l.Check(reserved("p/1", 90).Charges); d.Code != ledger.Admitted {
		t.Errorf("beside the slice of b: %+v", d)
	}
	trial.Discard()
	if d := l.ReserveInSlice("a", reserved("p/2", 30), nil); d.Code != ledger.Admitted || l.Sliced(cpu) != 20 || l.Account(cpu).Reserved != 30 {
		t.Errorf("from a slice: %+v, %d are left in slices", d, l.Sliced(cpu))
	}
	if d := l.ReserveInSlice("a", reserved("p/2", 30), nil); !d.Existing || l.Sliced(cpu) != 20 {
		t.Errorf("again: %+v, %d are left in slices", d, l.Sliced(cpu))
	}
	if d := l.ReserveInSlice("a", reserved("p/3", 15), nil); d.Code != ledger.Admitted || l.SliceCount() != 1 || l.Account(cpu).Reserved != 45 {
		t.Errorf("more than the slice has: %+v", d)
	}
	if !l.RevokeSlice("b") || l.RevokeSlice("b") || l.RevokeSlice("a") {
		t.Error("a slice is revoked once")
	}
	restored, err := ledger.Restore(l.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.Snapshot(), restored.Snapshot(), cmp.AllowUnexported(ledger.Dimensions{}, ledger.Selector{})); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if !l.DropSlice("b") || l.DropSlice("b") || l.Sliced(cpu) != 0 {
		t.Error("a slice is dropped once")
	}
}

func TestSliceThatDoesNotFit(t *testing.T) {
	for reason, s := range map[string]ledger.Slice{
		"without a holder":         sliceOf("", 1),
		"with a long holder":       sliceOf(strings.Repeat("h", ledger.HolderBytesMax+1), 1),
		"with a negative amount":   sliceOf("a", -1),
		"with an amount of zero":   sliceOf("a", 0),
		"beyond the largest sum":   sliceOf("a", ledger.AmountMax),
		"with no resource type":    {Holder: "a", Amounts: map[string]ledger.Amount{"": 1}},
		"with a part that is zero": {Holder: "a", Amounts: map[string]ledger.Amount{cpu: 1, "compute/gpu": 0}},
	} {
		l := withLimit(t, 100)
		l.Reserve(reserved("p/1", 1))
		before := l.Snapshot()
		if l.SetSlice(s) {
			t.Errorf("a slice %s was set", reason)
		}
		if diff := cmp.Diff(before, l.Snapshot(), cmp.AllowUnexported(ledger.Dimensions{}, ledger.Selector{})); diff != "" {
			t.Errorf("a slice %s (-want +got):\n%s", reason, diff)
		}
		if s.Holder != "" || s.Amounts[cpu] > 0 {
			before.Slices = []ledger.Slice{s}
			if _, err := ledger.Restore(before); err == nil {
				t.Errorf("a ledger with a slice %s was read", reason)
			}
		}
	}
	l := withLimit(t, 100)
	for i := range ledger.SlicesMax + 1 {
		if l.SetSlice(sliceOf(strings.Repeat("h", i+1), 1)) != (i < ledger.SlicesMax) {
			t.Errorf("slice %d", i)
		}
	}
}

// A slice counts like a reservation of the same amounts, also with selectors and among any other operations.
func TestSliceCountsLikeReservation(t *testing.T) {
	const types = 2
	resourceTypes := [types]string{cpu, "compute/gpu"}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		a, b := ledger.New(), ledger.New()
		both := func(f func(l *ledger.Ledger) ledger.Decision) {
			got, want := f(a), f(b)
			got.Sequence, want.Sequence = 0, 0
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(ledger.Dimensions{}, ledger.Selector{})); diff != "" {
				t.Fatalf("seed %d (-reservation +slice):\n%s", seed, diff)
			}
		}
		var selector ledger.Selector
		if random.IntN(2) == 0 {
			var err error
			if selector, err = ledger.NewSelector(ledger.Requirement{Key: "zone", Operator: ledger.In, Values: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
		}
		grant := ledger.Grant{UID: "g", Name: "g"}
		for _, resourceType := range resourceTypes {
			grant.Allowances = append(grant.Allowances, ledger.Allowance{ResourceType: resourceType, Amount: 60},
				ledger.Allowance{ResourceType: resourceType, Amount: 40, Selector: selector})
		}
		for _, l := range []*ledger.Ledger{a, b} {
			if _, err := l.SetGrant(grant); err != nil {
				t.Fatal(err)
			}
		}
		for step := range 60 {
			key, amount := []string{"p/1", "p/2", "p/3"}[random.IntN(3)], ledger.Amount(1+random.IntN(40))
			zone := map[string]string{}
			if random.IntN(2) == 0 {
				zone["zone"] = "a"
			}
			dimensions, err := ledger.NewDimensions(zone)
			if err != nil {
				t.Fatal(err)
			}
			charges := []ledger.Charge{{ResourceType: resourceTypes[random.IntN(types)], Dimensions: dimensions, Amount: amount}}
			switch random.IntN(5) {
			case 0, 1:
				both(func(l *ledger.Ledger) ledger.Decision {
					return l.Reserve(ledger.Reservation{Key: key, Charges: charges})
				})
			case 2:
				a.Cancel(key, 0)
				b.Cancel(key, 0)
			case 3:
				both(func(l *ledger.Ledger) ledger.Decision { return l.Check(charges) })
			case 4:
				s := ledger.Slice{Holder: "h", Amounts: map[string]ledger.Amount{}}
				var like []ledger.Charge
				for _, resourceType := range resourceTypes {
					if amount := ledger.Amount(random.IntN(20)); amount > 0 {
						s.Amounts[resourceType] = amount
						like = append(like, ledger.Charge{ResourceType: resourceType, Amount: amount})
					}
				}
				if !a.SetSlice(s) {
					t.Fatalf("seed %d, step %d: the slice does not fit", seed, step)
				}
				b.Cancel("slice", 0)
				if len(like) > 0 {
					b.ReserveOverdraft(ledger.Reservation{Key: "slice", Charges: like})
				}
			}
		}
	}
}
