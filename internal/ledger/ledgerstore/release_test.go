package ledgerstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

func TestRelease(t *testing.T) {
	granted := ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Granted: true, Charges: charges(4)}
	pending := granted
	pending.Granted = false
	large := granted
	large.Charges = charges(99)
	tests := map[string]struct {
		reason      string
		settled     bool
		holding     ledgerstore.ClaimCharges
		wantDrifted bool
		want        summary
	}{
		"reserved, not granted": {
			reason: "the reservation is dropped", holding: pending,
			want: summary{Limit: 10, Released: []string{"c"}},
		},
		"reserved and granted": {
			reason: "what was not settled yet is dropped, never subtracted", holding: granted,
			want: summary{Limit: 10, Released: []string{"c"}},
		},
		"settled": {
			reason: "the charges are subtracted", settled: true, holding: granted,
			want: summary{Limit: 10, Released: []string{"c"}},
		},
		"settled under another claim": {
			reason:  "a claim that was never granted holds nothing",
			settled: true, holding: ledgerstore.ClaimCharges{ClaimUID: "d", Key: "other", Charges: charges(4)},
			want: summary{Limit: 10, Used: 4, Claims: 1},
		},
		"more than is used": {
			reason: "drift is reported and left to the auditor", settled: true, holding: large, wantDrifted: true,
			want: summary{Limit: 10, Used: 4, Claims: 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p, other := start(t, memory, nil), start(t, memory, nil)
			p.limit(t, 10)
			p.reserve(t, "k", 4)
			if tt.settled {
				p.Settle(acme, "k", 0)
				p.flush(t)
			}
			for _, by := range []*process{p, p, other} {
				if drifted, _ := by.release(t, tt.holding); drifted != tt.wantDrifted {
					t.Errorf("%s: drifted is %t", tt.reason, drifted)
				}
				expect(t, tt.reason+", and repeating it changes nothing", memory, tt.want)
			}
		})
	}
}

// The life of a claim, replayed step by step by two processes.
func TestReplayedStepsChangeNothing(t *testing.T) {
	memory := storagetest.New()
	a, b := start(t, memory, nil), start(t, memory, nil)
	a.limit(t, 10)
	a.use(t, "standing", 3)
	sequence := a.reserve(t, "k", 4).Sequence
	settle := func(p *process) { p.Settle(acme, "k", sequence); p.flush(t) }
	release := func(p *process) {
		p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Sequence: sequence, Granted: true, Charges: charges(4)})
	}
	forget := func(p *process) { p.Forget(acme, "c"); p.flush(t) }
	steps := []struct {
		name string
		step func(*process)
		want summary
	}{
		{"settle", settle, summary{Limit: 10, Used: 7, Claims: 2}},
		{"release", release, summary{Limit: 10, Used: 3, Claims: 1, Released: []string{"c"}}},
		{"settle once more", settle, summary{Limit: 10, Used: 3, Claims: 1, Released: []string{"c"}}},
		{"forget", forget, summary{Limit: 10, Used: 3, Claims: 1}},
		{"cancel", func(p *process) { _ = p.Cancel(t.Context(), acme, "k", sequence) }, summary{Limit: 10, Used: 3, Claims: 1}},
	}
	for _, s := range steps {
		for _, p := range []*process{a, b, b, a} {
			s.step(p)
			expect(t, s.name, memory, s.want)
		}
	}
}

// Two processes see the same deletion. One of them verifies the existence of the claim, and acts later. In spite of
// anything in between, the ledger gives the charge back once.
func TestReleaseIsVerifiedAgain(t *testing.T) {
	memory := storagetest.New()
	a, b := start(t, memory, nil), start(t, memory, nil)
	a.limit(t, 10)
	a.use(t, "standing", 4)
	a.use(t, "k", 4)
	b.flush(t) // both have the ledger in memory
	holding := &ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Granted: true, Charges: charges(4)}
	exists, asked := true, 0
	drifted, err := b.Release(t.Context(), acme, "c", func(context.Context) (*ledgerstore.ClaimCharges, error) {
		asked++
		if !exists {
			return nil, nil
		}
		defer func() {
			// The other process releases the claim, lets it go and forgets it, all before b acts.
			a.release(t, *holding)
			a.Forget(acme, "c")
			a.flush(t)
			exists = false
		}()
		return holding, nil
	})
	if err != nil || drifted || asked != 2 {
		t.Errorf("drifted %t, error %v, verified %d times, want twice", drifted, err, asked)
	}
	expect(t, "only one of two equal charges was given back", memory, summary{Limit: 10, Used: 4, Claims: 1})
}

// A process has read a claim after its release by another process, and learns of the deletion before it acts: the
// record of the release goes first.
func TestReleaseOfAClaimThatIsForgotten(t *testing.T) {
	memory := storagetest.New()
	a, b := start(t, memory, nil), start(t, memory, nil)
	a.limit(t, 10)
	a.use(t, "standing", 4)
	a.use(t, "k", 4)
	holding := &ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Granted: true, Charges: charges(4)}
	a.release(t, *holding)
	b.flush(t) // it has the ledger in memory, with the record
	drifted, err := b.Release(t.Context(), acme, "c", func(context.Context) (*ledgerstore.ClaimCharges, error) {
		b.Forget(acme, "c")
		return holding, nil
	})
	if err != nil || drifted {
		t.Errorf("drifted %t, error %v", drifted, err)
	}
	b.flush(t)
	expect(t, "only one of two equal charges was given back", memory, summary{Limit: 10, Used: 4, Claims: 1})
}

func TestReleaseWithAnUnknownOutcome(t *testing.T) {
	for name, fault := range map[string]storagetest.Fault{
		"lost": storagetest.Lost, "unanswered": storagetest.Unanswered, "late": storagetest.Late, "overtaken": storagetest.Overtaken,
	} {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			other := start(t, memory, nil)
			other.limit(t, 10)
			other.use(t, "standing", 4)
			other.use(t, "k", 4)
			p := start(t, memory, script(fault))
			p.flush(t)
			drifted, asked := p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Granted: true, Charges: charges(4)})
			p.Deliver()
			if drifted || asked != 2 {
				t.Errorf("drifted %t, verified %d times, want twice", drifted, asked)
			}
			expect(t, "released once", memory, summary{Limit: 10, Used: 4, Claims: 1, Released: []string{"c"}})
		})
	}
}

func TestReleaseStopsWhenTheClaimCannotBeRead(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	p.use(t, "k", 4)
	broken := errors.New("the API server is away")
	_, err := p.Release(t.Context(), acme, "c", func(context.Context) (*ledgerstore.ClaimCharges, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}
	expect(t, "nothing is released on a guess", memory, summary{Limit: 10, Used: 4, Claims: 1})
}

func TestLimitsAreVerifiedAgain(t *testing.T) {
	memory := storagetest.New()
	a, b := start(t, memory, nil), start(t, memory, nil)
	a.limit(t, 10)
	b.flush(t)
	current := ledger.Amount(20)
	err := b.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		seen := current
		if seen == 20 { // somebody lowers the grant, and the other process is faster
			current = 5
			a.limit(t, current)
		}
		return grants(seen), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "a stale view never increases a limit", memory, summary{Limit: 5})
}

// SetGrants on a ledger outside of memory calls active once, with the grants of the ledger.
func TestLimitsOfALedgerThatWasNotReadYet(t *testing.T) {
	memory := storagetest.New()
	start(t, memory, nil).limit(t, 10)
	p := start(t, memory, nil)
	var asked [][]ledger.Grant
	err := p.SetGrants(t.Context(), acme, func(_ context.Context, held []ledger.Grant) ([]ledger.Grant, error) {
		asked = append(asked, held)
		return grants(20), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]ledger.Grant{grants(10)}, asked, cmp.AllowUnexported(ledger.Selector{})); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
	if reads := p.Calls(storagetest.Read); reads != 1 {
		t.Errorf("it was read %d times", reads)
	}
	expect(t, "the limit is set", memory, summary{Limit: 20})
}

func TestLimitsThatOverflow(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	err := p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		second := grants(1)[0]
		second.UID = "h"
		return append(grants(ledger.AmountMax), second), nil
	})
	if err == nil {
		t.Error("no error")
	}
	expect(t, "the limits stay as they were", memory, summary{Limit: 10})
}

func TestDenialsWaitForReleases(t *testing.T) {
	released := func(t *testing.T, p *process) {
		time.Sleep(300 * time.Millisecond)
		p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k", Granted: true, Charges: charges(4)})
		p.ReleaseDone(acme, "c")
	}
	tests := map[string]struct {
		reason   string
		amount   ledger.Amount
		during   func(*testing.T, *process)
		within   time.Duration // 0 is as long as it takes
		want     ledger.Code
		wantTook time.Duration
	}{
		"released": {
			reason: "what is as good as free is not denied", amount: 10, during: released,
			want: ledger.Admitted, wantTook: 300 * time.Millisecond,
		},
		"released, but too little": {
			reason: "once nothing more is expected the answer is given", amount: 11, during: released,
			want: ledger.Exceeded, wantTook: 300 * time.Millisecond,
		},
		"never released": {
			reason: "waiting is bounded", amount: 10, during: func(*testing.T, *process) {},
			want: ledger.Exceeded, wantTook: 3 * time.Second,
		},
		"never released, and the caller has no more time": {
			reason: "the answer is in time", amount: 10, during: func(*testing.T, *process) {}, within: 2 * time.Second,
			want: ledger.Exceeded, wantTook: 1700 * time.Millisecond,
		},
		"announcement ended": {
			reason: "without hope there is no waiting", amount: 10,
			during: func(_ *testing.T, p *process) { p.ReleaseDone(acme, "c") },
			want:   ledger.Exceeded,
		},
		"announced long ago": {
			reason: "an announcement that is never ended does not slow down denials for good", amount: 10,
			during: func(t *testing.T, p *process) {
				time.Sleep(time.Minute)
				began := time.Now()
				p.reserve(t, "again", 10)
				if took := time.Since(began); took != 0 {
					t.Errorf("a denial a minute later took %s", took)
				}
			},
			want: ledger.Exceeded, wantTook: 3 * time.Second,
		},
		"it fits anyway": {
			reason: "admissions do not wait", amount: 6, during: func(*testing.T, *process) {},
			want: ledger.Admitted,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, storagetest.New(), nil)
				p.limit(t, 10)
				p.use(t, "k", 4)
				p.ExpectRelease(acme, "c")
				ctx, cancel := context.WithCancel(t.Context())
				if tt.within > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tt.within)
				}
				defer cancel()
				began, took := time.Now(), make(chan time.Duration, 2)
				asked := []ledger.Reservation{reservation("new", tt.amount)}
				for _, decide := range []func() (ledgerstore.Outcome, error){
					func() (ledgerstore.Outcome, error) {
						return p.Apply(ctx, acme, ledgerstore.Request{Reservations: asked, DryRun: ledgerstore.Dry})
					},
					func() (ledgerstore.Outcome, error) {
						return p.Apply(ctx, acme, ledgerstore.Request{Reservations: asked, TakesOver: true})
					},
				} {
					go func() {
						decision, err := decide()
						if err != nil || decision.Code != tt.want {
							t.Errorf("%s: decided %s, error %v, want %s", tt.reason, decision.Code, err, tt.want)
						}
						took <- time.Since(began)
					}()
					synctest.Wait() // the question comes before the reservation
				}
				tt.during(t, p)
				for range cap(took) {
					if got := <-took; got != tt.wantTook {
						t.Errorf("%s: took %s, want %s", tt.reason, got, tt.wantTook)
					}
				}
			})
		})
	}
}
