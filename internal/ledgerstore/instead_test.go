package ledgerstore_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore/storagetest"
)

// What is reserved instead of something else takes its place if it holds the same, and otherwise stands beside it.
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
				if d, err := store.Reserve(t.Context(), acme, r); err != nil || d.Code != ledger.Admitted {
					t.Fatal(d, err)
				}
			}
			outcome, taken, err := store.ReserveInstead(t.Context(), acme, []ledger.Reservation{tt.asked}, map[string]string{"b": "a"})
			if err != nil || outcome.Code != tt.code || !cmp.Equal(taken, tt.taken) {
				t.Fatalf("%s: got %s, taken %v, %v", tt.reason, outcome.Code, taken, err)
			}
			var keys []string
			for _, r := range memory.Books(acme).Reservations {
				keys = append(keys, r.Key)
			}
			if diff := cmp.Diff(tt.keys, keys); diff != "" {
				t.Errorf("%s: reservations (-want +got):\n%s", tt.reason, diff)
			}
			// What it has in memory is what is stored.
			if d, err := store.Reserve(t.Context(), acme, reservation("a", 6)); tt.taken == nil && (err != nil || !d.Existing) {
				t.Errorf("%s: %+v, %v", tt.reason, d, err)
			}
		})
	}
}
