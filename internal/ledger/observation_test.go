package ledger_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// TestObservationsAreExact has replicas that lag, skip changes, lose answers, and die. Each admitted request counts
// once at all times, the objects never exceed the limits unless a limit was lowered, and in the end the ledger has
// exactly what exists.
func TestObservationsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, drawn{t})
		for range 60 {
			c.step()
		}
		c.settle()
	})
}

// FuzzObservations is [TestObservationsAreExact] with the choices of the input.
func FuzzObservations(f *testing.F) {
	f.Add([]byte("create, observe, update, delete; kill a replica and see whether its slice ends"))
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &script{rest: input}
		c := newCluster(t, s)
		for range 200 {
			if len(s.rest) == 0 {
				break
			}
			c.step()
		}
		c.settle()
	})
}

// TestObservationsFollowEverything also changes policies, the owner of the namespace, and the demand of objects without
// a review. Observed demand never goes back, and is always that of one basis.
func TestObservationsFollowEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, drawn{t})
		c.isSteady = false
		for range 60 {
			c.step()
			c.disturb()
		}
		c.settle()
	})
}

// seen is an observer that says the same about every request, and knows no single change.
type seen ledger.Visibility

func (s seen) Visibility(*ledger.Reservation) ledger.Visibility { return ledger.Visibility(s) }

func (s seen) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) { return nil, false }

func TestObserveInvalid(t *testing.T) {
	demand := func(amount ledger.Amount, objects int64) ledger.Demand {
		return ledger.Demand{ResourceType: mapsType, Amount: amount, Objects: objects}
	}
	for name, o := range map[string]ledger.Observation{
		"no kind":          {Demands: []ledger.Demand{demand(1, 1)}},
		"long kind":        {Kind: strings.Repeat("k", ledger.KindBytesMax+1)},
		"negative demand":  {Kind: mapsKind, Demands: []ledger.Demand{demand(-1, 1)}},
		"no objects":       {Kind: mapsKind, Demands: []ledger.Demand{demand(1, 0)}},
		"too many objects": {Kind: mapsKind, Demands: []ledger.Demand{demand(1, ledger.CountMax+1)}},
		"no type":          {Kind: mapsKind, Demands: []ledger.Demand{{Amount: 1, Objects: 1}}},
		"repeated":         {Kind: mapsKind, Demands: []ledger.Demand{demand(1, 1), demand(2, 1)}},
		"beyond an amount": {Kind: mapsKind, Demands: []ledger.Demand{demand(ledger.AmountMax, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New()
			r := ledger.Reservation{Key: "k", Charges: []ledger.Charge{{ResourceType: mapsType, Amount: 1}}, Awaits: &ledger.Awaited{Kind: mapsKind, ID: "other"}}
			if d := l.ReserveOverdraft(r); d.Code != ledger.Admitted {
				t.Fatal(d)
			}
			before := encode(t, l.Snapshot())
			uptake, err := l.Observe(o, seen{})
			if err == nil || uptake.HasChanged || !bytes.Equal(before, encode(t, l.Snapshot())) {
				t.Errorf("%+v, error: %v", uptake, err)
			}
		})
	}
}

// Demand of many dimension sets is beyond the bounds of a ledger. The consumer has what it had before.
func TestObserveTooMany(t *testing.T) {
	l := ledger.New()
	o := ledger.Observation{Kind: mapsKind, Basis: ledger.Basis{Objects: 1}}
	for i := range ledger.BalancesMax + 1 {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: mapsType, Dimensions: dimensionsOf("i", fmt.Sprint(i)), Amount: 1, Objects: 1})
	}
	see := seen{}
	if uptake, err := l.Observe(o, see); err == nil || uptake.HasChanged || l.Account(mapsType).Used != 0 || len(l.ResourceTypes()) != 0 {
		t.Errorf("%+v, error: %v, %+v", uptake, err, l.Account(mapsType))
	}
	o.Demands = o.Demands[1:]
	if uptake, err := l.Observe(o, see); err != nil || !uptake.HasChanged || l.Account(mapsType).Used != ledger.BalancesMax {
		t.Errorf("%+v, error: %v, %+v", uptake, err, l.Account(mapsType))
	}
	restored, err := ledger.Restore(l.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Snapshot(); !bytes.Equal(encode(t, got), encode(t, l.Snapshot())) || restored.Bytes() != l.Bytes() {
		t.Errorf("restored: %d bytes, want %d", restored.Bytes(), l.Bytes())
	}
}

// The slice of a process that has died stays until the ledger has observed all that the process may have admitted.
func TestEndSlice(t *testing.T) {
	l := ledger.New()
	if !l.SetSlice(ledger.Slice{Holder: "a", Amounts: map[string]ledger.Amount{mapsType: 3}}) {
		t.Fatal("no slice")
	}
	observe := func(basis ledger.Basis) {
		if _, err := l.Observe(ledger.Observation{Kind: mapsKind, Basis: basis}, seen{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := map[string]ledger.Basis{mapsKind: {Objects: 5, Policies: 2}}
	observe(ledger.Basis{Objects: 5, Policies: 2})
	if l.EndSlice("a", ended) {
		t.Error("its holder may still admit from it")
	}
	l.RevokeSlice("a")
	ended["secrets"] = ledger.Basis{Objects: 7}
	if l.EndSlice("a", ended) || l.EndSlice("a", nil) {
		t.Error("not every kind is observed")
	}
	delete(ended, "secrets")
	ended[mapsKind] = ledger.Basis{Objects: 5, Policies: 3}
	if l.EndSlice("a", ended) {
		t.Error("by the policies before, its objects may demand nothing")
	}
	observe(ledger.Basis{Objects: 5, Policies: 3})
	if !l.EndSlice("a", ended) || l.SliceCount() != 0 {
		t.Error("everything is observed")
	}
}

// A holder that does not know whether its write succeeded records the same request again. The slice then still covers
// its other admission, whether the observers know that the request has ended or not.
func TestRecordFromSliceTwice(t *testing.T) {
	const holder = "a"
	r := ledger.Reservation{
		Key: "k", Charges: []ledger.Charge{{ResourceType: mapsType, Amount: 2}}, Awaits: &ledger.Awaited{Kind: mapsKind, ID: "u"},
	}
	for name, test := range map[string]struct {
		reason        string
		amount, other ledger.Amount // of the slice before, and of the other admission
		by            []seen        // the holder in each attempt
		want          ledger.Amount // in the slice after both
	}{
		"decided": {
			reason: "nothing in the ledger tells that the request has left the slice",
			amount: 5, other: 3, by: []seen{{Version: 1}, {Version: 1}}, want: 3,
		},
		"ended by another observer": {
			reason: "the key is free again, and the holder has listed the objects anew after the deletion",
			amount: 5, other: 3, by: []seen{{}, {}}, want: 3,
		},
		"less than the other admission": {
			reason: "the slice has no less than before, and no more",
			amount: 2, other: 3, by: []seen{{Version: 1}}, want: 2,
		},
		"more than needed": {
			reason: "what nobody has admitted may leave the slice",
			amount: 9, other: 3, by: []seen{{Version: 1}, {Version: 1}}, want: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New()
			if !l.SetSlice(ledger.Slice{Holder: holder, Amounts: map[string]ledger.Amount{mapsType: test.amount}}) {
				t.Fatal("no slice")
			}
			keep := map[string]ledger.Amount{mapsType: test.other}

			for _, by := range test.by {
				if !l.EndInSlice(holder, &r, by, keep) {
					if d := l.ReserveInSlice(holder, r, keep); d.Code != ledger.Admitted || d.Existing {
						t.Fatalf("%+v", d)
					}
				}
				if _, err := l.Observe(ledger.Observation{Kind: mapsKind}, seen{IsDeleted: true}); err != nil {
					t.Fatal(err)
				}
			}

			if got := l.Sliced(mapsType); got != test.want {
				t.Errorf("the slice has %d, want %d: %s", got, test.want, test.reason)
			}
		})
	}
}

// Demand of a kind that is no longer defined goes, and other demand of the same type stays.
func TestForgetKind(t *testing.T) {
	l := ledger.New()
	for _, kind := range []string{mapsKind, "secrets"} {
		o := ledger.Observation{Kind: kind, Basis: ledger.Basis{Objects: 5}, Demands: []ledger.Demand{{ResourceType: mapsType, Amount: 2, Objects: 1}}}
		if uptake, err := l.Observe(o, seen{}); err != nil || !uptake.HasChanged {
			t.Fatal(uptake, err)
		}
	}
	before := l.Bytes()
	if !l.ForgetKind(mapsKind) || l.ForgetKind(mapsKind) {
		t.Error("a kind is forgotten once")
	}
	if a := l.Account(mapsType); a.Used != 2 || a.Claims != 1 || l.Bytes() >= before {
		t.Errorf("%+v, %d bytes, before %d", a, l.Bytes(), before)
	}
	l.ForgetKind("secrets")
	if got := ledger.New(); got.Bytes() != l.Bytes() || len(l.ResourceTypes()) != 0 {
		t.Errorf("an empty ledger has %d bytes, want %d", l.Bytes(), got.Bytes())
	}
}

// An observation may exchange one dimension set for another, also while there is a place for no more.
func TestObserveExchanges(t *testing.T) {
	l := ledger.New()
	o := ledger.Observation{Kind: mapsKind, Basis: ledger.Basis{Objects: 1}}
	for i := range ledger.BalancesMax {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: mapsType, Dimensions: dimensionsOf("i", fmt.Sprint(i)), Objects: 1})
	}
	if _, err := l.Observe(o, seen{}); err != nil {
		t.Fatal(err)
	}
	o.Demands = append(o.Demands[1:], ledger.Demand{ResourceType: mapsType, Dimensions: dimensionsOf("a", "a"), Objects: 1})
	if uptake, err := l.Observe(o, seen{}); err != nil || !uptake.HasChanged {
		t.Error(uptake, err)
	}
}

// A request must say what it waits for.
func TestAwaitedIsRefused(t *testing.T) {
	l := ledger.New()
	r := ledger.Reservation{Key: "k", Charges: []ledger.Charge{{ResourceType: mapsType, Amount: 1}}, Awaits: &ledger.Awaited{Kind: mapsKind}}
	if d := l.Reserve(r); d.Code != ledger.KeyInvalid {
		t.Errorf("without an ID: %+v", d)
	}
}
