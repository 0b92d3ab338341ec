package ledgerstore_test

import (
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
		"the same":       {"nothing more is held, also at the limit", awaiting("p/b", 6), ledger.Admitted, []string{"p/a"}, []string{"p/other", "p/b"}},
		"something else": {"both are held", awaiting("p/b", 1), ledger.Admitted, nil, []string{"p/a", "p/other", "p/b"}},
		"too much":       {"nothing changes", awaiting("p/b", 7), ledger.Exceeded, nil, []string{"p/a", "p/other"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			store := start(t, memory, nil)
			store.limit(t, 10)
			for _, r := range []ledger.Reservation{awaiting("p/a", 6), awaiting("p/other", 3)} {
				if d, err := storagetest.Reserve(t.Context(), store, acme, r); err != nil || d.Code != ledger.Admitted {
					t.Fatal(d, err)
				}
			}
			outcome, err := store.Apply(t.Context(), acme, ledgerstore.Request{
				Reservations: []ledger.Reservation{tt.asked}, TakesOver: true, Instead: map[string]string{"p/b": "p/a"},
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
			if d, err := storagetest.Reserve(t.Context(), store, acme, awaiting("p/a", 6)); tt.taken == nil && (err != nil || !d.Existing) {
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
	if d, err := storagetest.Reserve(t.Context(), store, acme, awaiting("p/1", 6)); err != nil || d.Code != ledger.Admitted {
		t.Fatal(d, err)
	}
	outcome, err := store.Apply(t.Context(), acme, ledgerstore.Request{
		Reservations: []ledger.Reservation{awaiting("p/2", 6), awaiting("q/2", 9)}, TakesOver: true, Instead: map[string]string{"p/2": "p/1"},
	})
	if err != nil || outcome.Code != ledger.Exceeded || len(outcome.Taken) > 0 {
		t.Fatalf("got %s, taken %v, %v", outcome.Code, outcome.Taken, err)
	}
	if held := store.ReservationsFor("1"); len(held) != 1 || held[0].Key != "p/1" {
		t.Errorf("in flight: %+v", held)
	}
}
