package ledgerstore_test

import (
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// One replica reserves for a review of several consumers, does not find room at the next consumer, and is slow to give
// back its reservation. At the same time another replica decides the same review, finds room everywhere, and allows the
// create. The first one then must not give back the reservation of the second one.
func TestReservationIsTakenOver(t *testing.T) {
	memory := storagetest.New()
	slow, other := start(t, memory, nil), start(t, memory, nil)
	slow.limit(t, 10)
	first := slow.reserve(t, "policy/object", 4)
	outcome, err := other.Apply(t.Context(), acme, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("policy/object", 4)}, TakesOver: true})
	if err != nil || outcome.Code != ledger.Admitted {
		t.Fatalf("decided %+v, %v", outcome, err)
	}
	second := outcome.Decisions[0]
	if !second.Existing || second.Sequence == first.Sequence {
		t.Fatalf("decided %+v, want what there is under another sequence than %d", second, first.Sequence)
	}
	if err := slow.Cancel(t.Context(), acme, "policy/object", first.Sequence); err != nil {
		t.Fatal(err)
	}
	expect(t, "the later review relies on it", memory, summary{Limit: 10, Reserved: 4, Keys: []string{"policy/object"}})
	if err := other.Cancel(t.Context(), acme, "policy/object", second.Sequence); err != nil {
		t.Fatal(err)
	}
	expect(t, "the later review gives it back", memory, summary{Limit: 10})
}
