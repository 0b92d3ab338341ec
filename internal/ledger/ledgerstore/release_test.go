package ledgerstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

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
		p.free(t, "k")
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
