package ledgerstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// ofTypes asks for one of each of so many types, numbered from first.
func ofTypes(key string, first, count int) ledger.Reservation {
	r := ledger.Reservation{Key: key}
	for i := range count {
		r.Charges = append(r.Charges, ledger.Charge{ResourceType: fmt.Sprintf("type-%02d", first+i), Amount: 1})
	}
	return r
}

func TestReserveAll(t *testing.T) {
	short := func(requested, used ledger.Amount) []ledger.Shortage {
		return []ledger.Shortage{{ResourceType: gpu, Requested: requested, Used: used, Limit: 10, Matching: 10, Available: 10 - used}}
	}
	tests := map[string]struct {
		reason string
		asked  []ledger.Reservation
		want   ledgerstore.Outcome
		keys   []string
	}{
		"both fit": {
			reason: "both are stored", asked: []ledger.Reservation{reservation("a", 3), reservation("b", 3)},
			want: ledgerstore.Outcome{Code: ledger.Admitted, Decisions: []ledger.Decision{{Code: ledger.Admitted, Sequence: 2}, {Code: ledger.Admitted, Sequence: 3}}},
			keys: []string{"there", "a", "b"},
		},
		"the second does not fit": {
			reason: "none is stored, and what the first asks counts as requested, not as used",
			asked:  []ledger.Reservation{reservation("a", 5), reservation("b", 3)},
			want:   ledgerstore.Outcome{Code: ledger.Exceeded, FailedIndex: 1, Shortages: short(8, 4)},
			keys:   []string{"there"},
		},
		"one is there already": {
			reason: "it is not asked for again, and stays when the other does not fit",
			asked:  []ledger.Reservation{reservation("there", 4), reservation("b", 7)},
			want:   ledgerstore.Outcome{Code: ledger.Exceeded, FailedIndex: 1, Shortages: short(7, 4)},
			keys:   []string{"there"},
		},
		"one is malformed": {
			reason: "the outcome says which", asked: []ledger.Reservation{reservation("a", 1), reservation("b", -1)},
			want: ledgerstore.Outcome{Code: ledger.AmountNotPositive, FailedIndex: 1},
			keys: []string{"there"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p := start(t, memory, nil)
			p.limit(t, 10)
			p.reserve(t, "there", 4)
			for _, decide := range []func(context.Context) (ledgerstore.Outcome, error){
				func(ctx context.Context) (ledgerstore.Outcome, error) {
					return p.Apply(ctx, acme, ledgerstore.Request{Reservations: tt.asked, DryRun: ledgerstore.Dry})
				},
				func(ctx context.Context) (ledgerstore.Outcome, error) {
					return p.Apply(ctx, acme, ledgerstore.Request{Reservations: tt.asked, TakesOver: true})
				},
			} {
				got, err := decide(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i := range got.Decisions { // a check uses up numbers, too
					got.Decisions[i].Sequence = tt.want.Decisions[i].Sequence
				}
				if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ledger.Dimensions{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			}
			if diff := cmp.Diff(tt.keys, stored(t, memory).Keys); diff != "" {
				t.Errorf("%s: the stored reservations (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// More types than one reservation may have, over several, are no obstacle.
func TestReserveAllManyTypes(t *testing.T) {
	p := start(t, storagetest.New(), nil)
	asked := []ledger.Reservation{ofTypes("a", 0, ledger.ChargesMax), ofTypes("b", ledger.ChargesMax, ledger.ChargesMax)}
	outcome, err := p.Apply(t.Context(), acme, ledgerstore.Request{Reservations: asked, DryRun: ledgerstore.Dry})
	if err != nil || outcome.Code != ledger.Exceeded || len(outcome.Shortages) != 2*ledger.ChargesMax {
		t.Errorf("got %s with %d shortages, error %v; want Exceeded with %d", outcome.Code, len(outcome.Shortages), err, 2*ledger.ChargesMax)
	}
}

func TestLargeReservationsAreBusyEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		p.limit(t, 1000)
		large := func(n int) ledger.Reservation {
			r := reservation(fmt.Sprintf("p/%d", n), 1)
			r.Claim = strings.Repeat("x", ledger.ClaimBytesMax)
			return r
		}
		n := 0
		for ; n < 100; n++ {
			if _, err := storagetest.Reserve(t.Context(), p, acme, large(n)); err != nil {
				break
			}
		}
		if most := ledger.BytesMax / ledger.ClaimBytesMax; n >= most || n < most-2 {
			t.Errorf("%d reservations of %d bytes were let in flight", n, ledger.ClaimBytesMax)
		}
		cancel(t, p, "p/0")
		if _, err := storagetest.Reserve(t.Context(), p, acme, large(n)); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}

// The store finds a stored reservation even if its caller got an error.
func TestLostReservationIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		ctx, leave := context.WithCancel(t.Context())
		armed := false
		p := start(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
			if !armed || call != storagetest.Write {
				return storagetest.None
			}
			armed = false
			leave() // the caller does not wait any longer
			return storagetest.Unanswered
		})
		p.limit(t, 1)
		armed = true
		if _, err := storagetest.Reserve(ctx, p, acme, reservation("p/u", 1)); err == nil {
			t.Fatal("the caller was told that all is well")
		}
		time.Sleep(time.Second) // virtual
		if known := p.Reservations(); len(known) != 1 {
			t.Errorf("%d reservation is stored, and the process knows of %d", len(memory.Snapshot(acme).Reservations), len(known))
		}
	})
}
