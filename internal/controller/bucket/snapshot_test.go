package bucket

import (
	"context"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// committing lends a ledger for the time of a view, like the store, and decides further at once.
type committing struct{ l *ledger.Ledger }

func (c *committing) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	f(c.l)
	c.l.ReserveOverdraft(ledger.Reservation{Key: "next", Charges: []ledger.Charge{{ResourceType: "cpu", Dimensions: at("DFW"), Amount: 1}}})
	return nil
}

// Publication reads a copy while decisions continue: it computes nothing in the ledger itself.
func TestSnapshot(t *testing.T) {
	c := &Controller{Ledgers: &committing{locations(t)}}
	snapshot, err := c.snapshot(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot.Account("cpu").Reserved; got != 0 {
		t.Errorf("%d are reserved in the snapshot since it was taken", got)
	}
	if got := viewOf(snapshot, nil, nil).quotas["cpu"].shares; len(got) != 2 {
		t.Errorf("%d dimension sets are shown, want 2", len(got))
	}
}
