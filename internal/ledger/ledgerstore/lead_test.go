package ledgerstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// lead is a lead that may be lost at any time.
type lead struct{ err error }

func (l *lead) Check() error { return l.err }

// A leader that pauses after the comparison with a cap, and loses the lead, changes no grants.
func TestPausedLeaderSetsNoGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		p.limit(t, 10)
		held := &lead{}
		p.Lead = held

		lost := errors.New("another one leads")
		raise := func() error {
			return p.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
				held.err = lost // it pauses here
				return grants(20), nil
			})
		}
		if err := raise(); !errors.Is(err, lost) {
			t.Fatalf("got %v, want that the lead is lost", err)
		}
		limit := func() (limit ledger.Amount) {
			err := p.View(t.Context(), acme, func(l *ledger.Ledger) { limit = l.Account(gpu).Limit })
			if err != nil {
				t.Fatal(err)
			}
			return limit
		}
		if got := limit(); got != 10 {
			t.Errorf("the limit is %d after a late write, want 10", got)
		}
	})
}
