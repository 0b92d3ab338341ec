package ledgerstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// admission, and no error.
func TestStockBehindFitsInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, ahead, behind := storagetest.New(), newInventory(widgets), newInventory(widgets)
		p := counting(t, memory, nil, ahead, 10)
		ahead.kind(widgets).Confirm(2, 0)
		ahead.show(widgets, "1", 2, 6)
		p.reserve(t, "other", 4)
		q := start(t, memory, nil)
		q.Inventory = behind
		behind.show(widgets, "2", 3, 3)
		behind.onCatchUp = func([]string) error {
			q.ExpectRelease(acme, "other") // the decision waits
			go func() {
				<-time.After(time.Second)
				if err := q.Cancel(t.Context(), acme, "other", 0); err != nil {
					t.Error(err)
				}
			}()
			return nil
		}

		q.admit(t, creating(widgets, "3", 1))

		expectCounted(t, "the reservation is stored", memory, counted{Observed: 6, Pending: 1})
	})
}
