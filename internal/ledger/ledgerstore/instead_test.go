package ledgerstore_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A reservation instead of another one takes its place if it holds the same, and otherwise stands beside it.
func TestReserveInstead(t *testing.T) {
	tests := map[string]struct {
		reason string
		asked  ledger.Reservation
		code   ledger.Code
		taken  []string
		keys   []string
	}{
		"the same":       {"nothing more is held, also at the limit", reservation("b", 6), ledger.Admitted, []string{"a"}, []string{"other", "b"}},
		"something else": {"both are held", reservation("b", 1), ledger.Admitted, nil, []string{"a", "other", "b"}},
		"too much":       {"nothing changes", reservation("b", 7), ledger.Exceeded, nil, []string{"a", "other"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			store := start(t, memory, nil)
			store.limit(t, 10)
			for _, r := range []ledger.Reservation{reservation("a", 6), reservation("other", 3)} {
				if d, err := storagetest.Reserve(t.Context(), store, acme, r); err != nil || d.Code != ledger.Admitted {
					t.Fatal(d, err)
				}
			}
			outcome, err := store.Apply(t.Context(), acme, ledgerstore.Request{
				Reservations: []ledger.Reservation{tt.asked}, TakesOver: true, Instead: map[string]string{"b": "a"},
			})
			if err != nil || outcome.Code != tt.code || !cmp.Equal(outcome.Taken, tt.taken) {
				t.Fatalf("%s: got %s, taken %v, %v", tt.reason, outcome.Code, outcome.Taken, err)
			}
			var keys []string
			for _, r := range memory.Snapshot(acme).Reservations {
				keys = append(keys, r.Key)
			}
			if diff := cmp.Diff(tt.keys, keys); diff != "" {
				t.Errorf("%s: reservations (-want +got):\n%s", tt.reason, diff)
			}
			// The copy in memory must equal the stored ledger.
			if d, err := storagetest.Reserve(t.Context(), store, acme, reservation("a", 6)); tt.taken == nil && (err != nil || !d.Existing) {
				t.Errorf("%s: %+v, %v", tt.reason, d, err)
			}
		})
	}
}

// A takeover that is denied with the rest of its request leaves everything as it was, also what the process knows to be
// in flight.
func TestDeniedReserveInstead(t *testing.T) {
	store := start(t, storagetest.New(), nil)
	store.limit(t, 10)
	if d, err := storagetest.Reserve(t.Context(), store, acme, reservation("p/1", 6)); err != nil || d.Code != ledger.Admitted {
		t.Fatal(d, err)
	}
	outcome, err := store.Apply(t.Context(), acme, ledgerstore.Request{
		Reservations: []ledger.Reservation{reservation("p/2", 6), reservation("q/2", 9)}, TakesOver: true, Instead: map[string]string{"p/2": "p/1"},
	})
	if err != nil || outcome.Code != ledger.Exceeded || len(outcome.Taken) > 0 {
		t.Fatalf("got %s, taken %v, %v", outcome.Code, outcome.Taken, err)
	}
	if held := store.ReservationsFor("1"); len(held) != 1 || held[0].Key != "p/1" {
		t.Errorf("in flight: %+v", held)
	}
}

// One process grants the claim of object 1 from its reservation, while another one takes the reservation over for
// object 2. The end of claim 1 gives nothing back: its charges belong to object 2.
func TestTakeOverWhileGranted(t *testing.T) {
	memory := storagetest.New()
	granting, taking := start(t, memory, nil), start(t, memory, nil)
	taking.limit(t, 10)
	first, err := storagetest.Reserve(t.Context(), taking, acme, reservation("p/1", 6))
	if err != nil {
		t.Fatal(err)
	}
	see := func(*ledger.Ledger) {}
	if err := granting.View(t.Context(), acme, see); err != nil {
		t.Fatal(err)
	}
	outcome, err := taking.Apply(t.Context(), acme, ledgerstore.Request{
		Reservations: []ledger.Reservation{reservation("p/2", 6)}, TakesOver: true, Instead: map[string]string{"p/2": "p/1"},
	})
	if err != nil || outcome.Code != ledger.Admitted {
		t.Fatal(outcome.Code, err)
	}
	if !taking.IsWithdrawn(acme, first.Sequence) {
		t.Error("a claim of the reservation that was taken over is to be known as charged nowhere")
	}
	granting.Settle(acme, "p/1", first.Sequence)
	taking.Settle(acme, "p/2", outcome.Decisions[0].Sequence)
	granting.flush(t)
	taking.flush(t)
	_, err = granting.Release(t.Context(), acme, "claim-1", func(context.Context) (*ledgerstore.ClaimCharges, error) {
		return &ledgerstore.ClaimCharges{ClaimUID: "claim-1", Key: "p/1", Sequence: first.Sequence, Granted: true, Charges: reservation("p/1", 6).Charges}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := storagetest.Reserve(t.Context(), taking, acme, reservation("p/3", 6)); err != nil || d.Code != ledger.Exceeded {
		t.Errorf("object 2 holds 6 of 10, and 6 more are %s, %v; want %s", d.Code, err, ledger.Exceeded)
	}
}
