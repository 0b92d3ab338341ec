package ledgerstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// demand reserves like a webhook with a request beyond every slice.
func (p *process) demand(t *testing.T, amount ledger.Amount) {
	t.Helper()
	p.escrow("p/before", amount/2)
	p.escrow("p/first", amount/2)
	p.reserve(t, "p/first", amount)
}

// limitBySelector sets a limit for requests without dimensions, and a second one for a region.
func (p *process) limitBySelector(t *testing.T, plain, regional ledger.Amount) {
	t.Helper()
	inRegion, err := ledger.NewSelector(ledger.Requirement{Key: "region", Operator: ledger.In, Values: []string{"eu"}})
	if err != nil {
		t.Fatal(err)
	}
	err = p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Generation: 1, Allowances: []ledger.Allowance{
			{ResourceType: gpu, Amount: plain}, {ResourceType: gpu, Amount: regional, Selector: inRegion},
		}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// overdraw reserves beyond the limits.
func (p *process) overdraw(t *testing.T, key string, amount ledger.Amount) ledgerstore.Outcome {
	t.Helper()
	outcome, err := p.Apply(t.Context(), acme, ledgerstore.Request{
		Reservations: []ledger.Reservation{reservation(key, amount)}, Separately: true, Overdraft: true,
	})
	if err != nil || outcome.Decisions[0].Code != ledger.Admitted {
		t.Fatalf("overdraw: %+v, %v", outcome, err)
	}
	return outcome
}

func TestEscrowOfWhatNoLedgerTakes(t *testing.T) {
	awaits := awaiting("p/x", 1).Awaits
	for reason, requests := range map[string][]ledger.Reservation{
		"an amount beyond every sum":   {awaiting("p/x", ledger.AmountMax)},
		"two amounts beyond every sum": {awaiting("p/x", ledger.AmountMax), awaiting("p/y", ledger.AmountMax)},
		"a long claim":                 {{Key: "p/x", Awaits: awaits, Charges: charges(1), Claim: strings.Repeat("x", ledger.ClaimBytesMax+1)}},
		"a repeated type":              {{Key: "p/x", Awaits: awaits, Charges: append(charges(1), charges(1)...), Claim: "c"}},
		"no charges":                   {{Key: "p/x", Awaits: awaits, Claim: "c"}},
		"an amount of zero":            {{Key: "p/x", Awaits: awaits, Charges: charges(0), Claim: "c"}},
		"no object":                    {reservation("p/x", 1)},
		"no key":                       {{Awaits: awaits, Charges: charges(1), Claim: "c"}},
	} {
		t.Run(reason, inBubble(func(t *testing.T) {
			memory := storagetest.New()
			p := holding(t, memory, nil)
			if !p.escrow("p/a", 4) || p.Escrow(acme, requests, ledgerstore.Spare{}) || p.escrow("p/b", 50_000) {
				t.Error("the slice admitted something else than what it covers")
			}
			<-time.After(4 * time.Second)
			if s := stored(t, memory); s.Reserved != 8 {
				t.Errorf("%d are reserved", s.Reserved)
			}
		}))
	}
}

// Nobody holds quota for rare demand, or for demand that no slice can pay.
func TestDemandWithoutSlice(t *testing.T) {
	region, err := ledger.NewDimensions(map[string]string{"region": "eu"})
	if err != nil {
		t.Fatal(err)
	}
	for reason, tt := range map[string]struct {
		pause      time.Duration
		dimensions ledger.Dimensions
	}{
		"one create every ten seconds": {10 * time.Second, ledger.Dimensions{}},
		"creates with dimensions":      {time.Second, region},
	} {
		t.Run(reason, inBubble(func(t *testing.T) {
			memory := storagetest.New()
			p := start(t, memory, nil)
			p.limit(t, 10_000)
			for _, key := range keys("p", 10) {
				r := awaiting(key, 4)
				r.Charges[0].Dimensions = tt.dimensions
				if p.Escrow(acme, []ledger.Reservation{r}, ledgerstore.Spare{}) {
					t.Error("admitted from a slice")
				}
				if d, err := storagetest.Reserve(t.Context(), p, acme, r); err != nil || d.Code != ledger.Admitted {
					t.Fatalf("%+v, %v", d, err)
				}
				expectSlices(t, "after "+key, memory)
				<-time.After(tt.pause)
			}
		}))
	}
}

// Demand too large for the ledger must not keep the slice of another resource type.
func TestSliceShrinksInFullLedger(t *testing.T) {
	inBubble(func(t *testing.T) {
		const cpu = "compute/cpu"
		memory := storagetest.New()
		p := holding(t, memory, nil)
		err := p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
			return []ledger.Grant{{UID: "g", Name: "g", Generation: 2, Allowances: []ledger.Allowance{
				{ResourceType: gpu, Amount: 10_000}, {ResourceType: cpu, Amount: 10_000},
			}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		memory.Fill(acme)
		p.look(t)
		for range 20 {
			p.Escrow(acme, []ledger.Reservation{{Key: "p/cpu", Claim: "c", Awaits: awaiting("p/cpu", 1).Awaits, Charges: []ledger.Charge{{ResourceType: cpu, Amount: 1}}}}, ledgerstore.Spare{})
			<-time.After(time.Second)
		}
		expectSlices(t, "without demand for it", memory)
	})(t)
}

// A process also returns a slice if it ends during the write of this slice.
func TestFlushDuringWrite(t *testing.T) {
	inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, func(context.Context, storagetest.Call) storagetest.Fault {
			<-time.After(50 * time.Millisecond)
			return storagetest.None
		})
		p.limit(t, 10_000)
		go p.demand(t, 4)
		<-time.After(10 * time.Millisecond)
		p.flush(t)
		expectSlices(t, "after the end", memory)
	})(t)
}

// Only the allowances for requests without dimensions pay for a slice.
func TestEscrowBySelector(t *testing.T) {
	t.Run("used up by another process", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limitBySelector(t, 10_000, 100_000)
		p.demand(t, 4)
		expectSlices(t, "with demand", memory, 8)
		start(t, memory, nil).overdraw(t, "p/more", 9_996)
		p.look(t)
		if p.escrow("p/a", 4) {
			t.Error("admitted beyond the plain allowance")
		}
	}))
	t.Run("reduced", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limitBySelector(t, 10_000, 100_000)
		p.demand(t, 4)
		start(t, memory, nil).limitBySelector(t, 0, 100_000)
		p.look(t)
		if p.escrow("p/a", 4) {
			t.Error("admitted without an allowance")
		}
	}))
	t.Run("used up by this process", inBubble(func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		p.limitBySelector(t, 1_000_000, 1_000_000)
		for range 8 {
			p.escrow("p/first", 100)
		}
		p.demand(t, 100)
		p.overdraw(t, "p/more", 999_950)
		if p.escrow("p/a", 100) {
			t.Error("admitted beyond the plain allowance")
		}
	}))
}

// Reservations in the ledger need no slice: the rest is free for others.
func TestEscrowedAndStored(t *testing.T) {
	for _, isSelective := range []bool{false, true} {
		t.Run(fmt.Sprintf("by this process, selective: %t", isSelective), inBubble(func(t *testing.T) {
			memory, faults := storagetest.New(), &atomic.Int64{}
			p := start(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
				if call == storagetest.Write && faults.Add(-1) >= 0 {
					return storagetest.Unanswered
				}
				return storagetest.None
			})
			if p.limit(t, 10_000); isSelective {
				p.limitBySelector(t, 10_000, 100_000)
			}
			p.demand(t, 4)
			if !p.escrow("p/a", 8) {
				t.Fatal("not admitted from the slice")
			}
			faults.Store(1)
			if d := p.reserve(t, "p/rest", 9_988); d.Code != ledger.Admitted {
				t.Errorf("a request for the rest: %+v", d)
			}
			if p.escrow("p/b", 4) || slicedIn(memory.Snapshot(acme)) > 0 {
				t.Error("there is a slice beyond the limit")
			}
		}))
	}
	t.Run("by another process", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		if !p.escrow("p/a", 8) {
			t.Fatal("not admitted from the slice")
		}
		other := awaiting("p/a", 8)
		other.ReservedAt = 77
		if _, err := storagetest.Reserve(t.Context(), start(t, memory, nil), acme, other); err != nil {
			t.Fatal(err)
		}
		if d := p.reserve(t, "p/rest", 9_988); d.Code != ledger.Admitted {
			t.Errorf("a request for the rest: %+v", d)
		}
		if r := p.ReservationsFor("a"); len(r) != 1 || r[0].IsOwn || r[0].IsUnrecorded {
			t.Errorf("the store knows %+v", r)
		}
	}))
}

// A revoked slice makes way too: its holder knows its admissions.
func TestRevokedSliceMakesWay(t *testing.T) {
	inBubble(func(t *testing.T) {
		memory, blocked := storagetest.New(), &outage{}
		p := holding(t, memory, blocked.faults)
		standStill(t, p, memory, blocked)
		blocked.Store(false)
		if d := p.reserve(t, "p/rest", 9_993); d.Code != ledger.Admitted {
			t.Errorf("a request for the rest: %+v", d)
		}
	})(t)
}

// The holder may use its slice before it knows of the overdraft, so the decision has the shortage.
func TestOverdraftBesideForeignSlice(t *testing.T) {
	inBubble(func(t *testing.T) {
		memory := storagetest.New()
		holding(t, memory, nil)
		outcome := start(t, memory, nil).overdraw(t, "p/audited", 9_996)
		if len(outcome.Decisions[0].Shortages) != 1 {
			t.Errorf("no shortage beside the slice of another process: %+v", outcome)
		}
	})(t)
}

// A tentative reservation of the last balance must not take the place of the slice.
func TestDryRunKeepsSlice(t *testing.T) {
	inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 100_000)
		dimensions := func(i int) ledger.Dimensions {
			d, err := ledger.NewDimensions(map[string]string{"i": fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		full := objectOf("full", nextVersion(), 0)
		full.Demands[0].Charges = nil
		for i := range ledger.BalancesMax - 1 {
			full.Demands[0].Charges = append(full.Demands[0].Charges, ledger.Charge{ResourceType: gpu, Dimensions: dimensions(i), Amount: 1})
		}
		p.Inventory.(*inventoryOf).kind(widgets).Set(full)
		p.ObjectChanged("full", []quotav1alpha1.ConsumerRef{acme})
		p.demand(t, 4)
		if err := p.Cancel(t.Context(), acme, "p/first", 0); err != nil {
			t.Fatal(err)
		}
		before := slicedIn(memory.Snapshot(acme))
		_, err := p.Apply(t.Context(), acme, ledgerstore.Request{DryRun: ledgerstore.Dry, Reservations: []ledger.Reservation{{
			Key: "p/dry", Claim: "c", Charges: []ledger.Charge{{ResourceType: gpu, Dimensions: dimensions(ledger.BalancesMax), Amount: 100_000 - ledger.BalancesMax + 1}},
		}}})
		if !p.escrow("p/after", 1) {
			t.Error("the slice admits nothing after a dry run")
		}
		var after ledger.Amount
		if errView := p.View(t.Context(), acme, func(l *ledger.Ledger) { after = l.Sliced(gpu) }); err != nil || errView != nil || after != before || before == 0 {
			t.Errorf("the slice was %d and is %d: %v, %v", before, after, err, errView)
		}
	})(t)
}

// A repeated review gets no second admission from the slice before the record of the first.
func TestRepeatedReviewIsNotEscrowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := holding(t, storagetest.New(), nil)
		if !p.escrow("p/a", 1) {
			t.Fatal("not admitted from the slice")
		}
		if p.escrow("p/a", 1) {
			t.Error("admitted a second time")
		}
	})
}

// However large the demand, a slice is at most an eighth of the rest, and one percent of the limit.
func TestSliceIsSmall(t *testing.T) {
	for name, tt := range map[string]struct{ limit, used, most ledger.Amount }{
		"beside the limit": {limit: 1000, used: 100, most: 10},
		"beside the rest":  {limit: 1000, used: 960, most: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := storagetest.New()
				p := start(t, memory, nil)
				p.limit(t, tt.limit)
				p.reserve(t, "p/standing", tt.used)
				for _, key := range keys("p", 8) {
					if !p.escrow(key, 1) {
						p.reserve(t, key, 1)
					}
				}
				var most ledger.Amount
				for _, revision := range memory.Revisions(acme) {
					most = max(most, slicedIn(revision.Snapshot))
				}
				if most == 0 || most > tt.most {
					t.Errorf("up to %d are in slices, want some and at most %d", most, tt.most)
				}
			})
		})
	}
}

// A process with a copy from before the holder's latest write does not revoke the slice.
func TestSliceOfAWriterIsNotRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p, other := holding(t, memory, nil), start(t, memory, nil)
		other.look(t)
		known := other.ForeignSlices()
		<-time.After(2 * time.Second)
		p.escrow("p/a", 1)
		p.reserve(t, "p/b", 1)
		if err := other.RevokeSlice(t.Context(), known[0]); err != nil {
			t.Fatal(err)
		}
		for _, s := range memory.Snapshot(acme).Slices {
			if s.IsRevoked {
				t.Error("revoked although its holder has just written")
			}
		}
	})
}
