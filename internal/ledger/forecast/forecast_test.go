package forecast_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/forecast"
)

var (
	acme   = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "acme"}
	globex = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "globex"}
)

func maps(n ledger.Amount) []ledger.Charge {
	if n == 0 {
		return nil
	}
	return []ledger.Charge{{ResourceType: "example.com/maps", Amount: n}}
}

// change is one of acme.
func change(before, after ledger.Amount) forecast.Change {
	return forecast.Change{Consumer: acme, Before: maps(before), After: maps(after)}
}

// granted returns a ledger with a limit, and usage.
func granted(t *testing.T, limit, used ledger.Amount) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{{ResourceType: "example.com/maps", Amount: limit}}}); err != nil {
		t.Fatal(err)
	}
	demand := ledger.Demand{ResourceType: "example.com/maps", Amount: used, Objects: int64(used)}
	if _, err := l.Observe(ledger.Observation{Kind: "others", Demands: []ledger.Demand{demand}}, nothingKnown{}); err != nil {
		t.Fatal(err)
	}
	return l
}

type ledgers map[quotav1alpha1.ConsumerRef]*ledger.Ledger

func (l ledgers) Ledger(_ context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	return forecast.Copy(l[consumer])
}

func TestDecide(t *testing.T) {
	const admitted, exceeded = ledger.Admitted, ledger.Exceeded
	ofGlobex := change(0, 1)
	ofGlobex.Consumer = globex
	beyond := change(0, 9)
	beyond.Overdraft = true
	toGlobex := ofGlobex
	toGlobex.Overdraft = true
	tooMuch := change(0, ledger.AmountMax)
	tooMuch.Overdraft = true
	for name, test := range map[string]struct {
		objects [][]forecast.Change
		surge   bool
		want    [][]ledger.Code
		used    ledger.Amount // of acme, after it used 4 of 6
	}{
		"in order":             {[][]forecast.Change{{change(0, 1)}, {change(0, 2)}, {change(0, 1)}}, false, [][]ledger.Code{{admitted}, {exceeded}, {admitted}}, 6},
		"replaced":             {[][]forecast.Change{{change(0, 3)}, {change(3, 0)}}, false, [][]ledger.Code{{admitted}, {admitted}}, 4},
		"replaced with surge":  {[][]forecast.Change{{change(0, 3)}, {change(3, 0)}}, true, [][]ledger.Code{{exceeded}, {admitted}}, 1},
		"an update takes more": {[][]forecast.Change{{change(1, 3)}, {change(1, 2)}}, false, [][]ledger.Code{{admitted}, {exceeded}}, 6},
		"an update frees":      {[][]forecast.Change{{change(0, 4)}, {change(4, 2)}}, false, [][]ledger.Code{{admitted}, {admitted}}, 6},
		"whole or not at all":  {[][]forecast.Change{{change(0, 2), ofGlobex}, {change(0, 2)}}, false, [][]ledger.Code{{admitted, exceeded}, {admitted}}, 6},
		"beyond the limit":     {[][]forecast.Change{{beyond}, {change(0, 1)}}, false, [][]ledger.Code{{admitted}, {exceeded}}, 13},
		"more than there is":   {[][]forecast.Change{{change(5, 6)}}, false, [][]ledger.Code{{0}}, 4},
		"one moves away":       {[][]forecast.Change{{change(0, 3)}, {change(4, 0), toGlobex}}, false, [][]ledger.Code{{admitted}, {admitted, admitted}}, 3},
		"one of two is beyond": {[][]forecast.Change{{tooMuch, change(0, 1)}}, false, [][]ledger.Code{{ledger.Overflow, admitted}}, 5},
		"unchanged":            {[][]forecast.Change{{change(3, 3)}, {}}, false, [][]ledger.Code{{admitted}, {}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := &forecast.Forecast{Ledgers: ledgers{acme: granted(t, 6, 4), globex: ledger.New()}}
			decisions, err := f.Decide(t.Context(), test.objects, test.surge)
			if err != nil {
				t.Fatal(err)
			}
			got := make([][]ledger.Code, len(decisions))
			for i := range decisions {
				got[i] = []ledger.Code{}
				for _, d := range decisions[i] {
					got[i] = append(got[i], d.Code)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			_, l, err := f.Outcome(t.Context(), acme)
			if err != nil {
				t.Fatal(err)
			}
			if a := l.Account("example.com/maps"); a.Used != test.used || a.Reserved != 0 {
				t.Errorf("%d are used and %d reserved, want %d and 0", a.Used, a.Reserved, test.used)
			}
		})
	}
}

// A copy has observed demand and the requests that only an observation ends as usage, so that a forecast may give both
// back.
func TestCopyOfObserved(t *testing.T) {
	l := granted(t, 10, 1)
	for _, observed := range []ledger.Observation{
		{Kind: "maps", Basis: ledger.Basis{Objects: 5}, Demands: []ledger.Demand{{ResourceType: "example.com/maps", Amount: 3, Objects: 2}}},
		{Kind: "atlases", Basis: ledger.Basis{Objects: 5}, Demands: []ledger.Demand{{ResourceType: "example.com/maps", Amount: 1, Objects: 1}}},
	} {
		if _, err := l.Observe(observed, nothingKnown{}); err != nil {
			t.Fatal(err)
		}
	}
	l.Reserve(ledger.Reservation{Key: "a", Charges: maps(2), Awaits: &ledger.Awaited{Kind: "maps", ID: "u"}})

	c, err := forecast.Copy(l)
	if err != nil {
		t.Fatal(err)
	}

	if a := c.Account("example.com/maps"); a.Used != 7 || a.Reserved != 0 || a.Available != 3 {
		t.Errorf("of 10 maps %d are used, %d reserved and %d available, want 7, 0 and 3", a.Used, a.Reserved, a.Available)
	}
	f := &forecast.Forecast{Ledgers: ledgers{acme: c}}
	decisions, err := f.Decide(t.Context(), [][]forecast.Change{{change(3, 0)}, {change(2, 0)}, {change(0, 8)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range decisions {
		if d[0].Code != ledger.Admitted {
			t.Errorf("change %d is decided %s, want it admitted", i, d[0].Code)
		}
	}
	if a := l.Account("example.com/maps"); a.Used != 5 || a.Reserved != 2 {
		t.Errorf("the ledger itself has changed: %+v", a)
	}
}

// nothingKnown is an observer that has seen no object of a request.
type nothingKnown struct{}

func (nothingKnown) Visibility(*ledger.Reservation) ledger.Visibility { return ledger.Visibility{} }

func (nothingKnown) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) { return nil, false }

// A copy has reservations in flight as used, and slices as free.
func TestCopy(t *testing.T) {
	l := granted(t, 10, 1)
	l.Reserve(ledger.Reservation{Key: "a", Charges: maps(2)})
	l.SetSlice(ledger.Slice{Holder: "replica", Amounts: map[string]ledger.Amount{"example.com/maps": 3}})
	c, err := forecast.Copy(l)
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Account("example.com/maps"); a.Used != 3 || a.Reserved != 0 || c.Sliced("example.com/maps") != 0 {
		t.Errorf("%d are used, %d reserved and %d in slices, want 3, 0 and 0", a.Used, a.Reserved, c.Sliced("example.com/maps"))
	}
	if a := l.Account("example.com/maps"); a.Used != 1 || a.Reserved != 2 || l.Sliced("example.com/maps") != 3 {
		t.Errorf("the ledger itself has changed: %+v", a)
	}
}
