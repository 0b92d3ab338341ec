package ledgerstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A failed write takes effect after a read found it not done. A process without a watch of ledgers finds its
// reservation.
func TestLateWriteIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		start(t, memory, nil).limit(t, 10)
		faults := map[storagetest.Call]storagetest.Fault{}
		p := start(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
			defer delete(faults, call)
			return faults[call]
		})
		p.look(t)
		faults[storagetest.Write], faults[storagetest.Read] = storagetest.Late, storagetest.Lost
		if _, err := storagetest.Reserve(t.Context(), p, acme, reservation("late", 1)); err == nil {
			t.Fatal("admitted, although the write failed and the ledger could not be read")
		}
		p.flush(t)
		p.Deliver()
		if got := p.Reservations(); len(got) != 0 {
			t.Fatalf("it knows already of %v", got)
		}
		<-time.After(2 * p.ReservationLifetime)
		if got := p.Reservations(); len(got) != 1 || got[0].Key != "late" {
			t.Errorf("after the lifetime of reservations it knows of %v", got)
		}
	})
}
