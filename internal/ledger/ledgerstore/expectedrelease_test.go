package ledgerstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A request does not wait for releases. The committer still decides it again with its batch, and admits it if another
// process has made room.
func TestRoomIsMadeWhileABatchIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, open := storagetest.New(), make(gate)
		p, other := start(t, memory, open.faults), start(t, memory, nil)
		other.limit(t, 10)
		other.use(t, "used", 9)
		other.reserve(t, "settling", 1)
		p.ExpectRelease(acme, "used")
		p.Settle(acme, "settling", 0) // it waits for the next batch, and makes it a write
		done := make(chan error, 1)
		go func() {
			ctx := ledgerstore.WithRetryUntil(t.Context(), time.Now().Add(time.Minute))
			decision, err := storagetest.Reserve(ctx, p, acme, reservation("new", 5))
			if err == nil && decision.Code != ledger.Admitted {
				t.Errorf("decided %s although there is room", decision.Code)
			}
			done <- err
		}()
		synctest.Wait()
		other.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "used", Granted: true, Charges: charges(9)})
		p.ReleaseDone(acme, "used")
		close(open)
		if err := <-done; err != nil {
			t.Errorf("got %v although there is room", err)
		}
	})
}
