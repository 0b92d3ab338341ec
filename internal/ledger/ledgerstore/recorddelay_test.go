package ledgerstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// Consumers with creates from the same moment on do not stay in step: the store records their admissions at different
// moments.
func TestConsumersRecordInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const consumers, window = 40, 100 * time.Millisecond
		var mu sync.Mutex
		var writes []time.Time
		var group errgroup.Group
		p := start(t, storagetest.New(), func(_ context.Context, call storagetest.Call) storagetest.Fault {
			if call == storagetest.Write {
				mu.Lock()
				defer mu.Unlock()
				writes = append(writes, time.Now())
			}
			return storagetest.None
		})
		for n := range consumers {
			consumer := quotav1alpha1.ConsumerRef{Kind: "Organization", Name: fmt.Sprint("org-", n)}
			err := p.SetGrants(t.Context(), consumer, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) { return grants(100_000), nil })
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() error {
				for i := range 200 {
					r := awaiting(fmt.Sprint("p/", i), 1)
					if !p.Escrow(consumer, []ledger.Reservation{r}, ledgerstore.Spare{}) {
						if _, err := storagetest.Reserve(t.Context(), p, consumer, r); err != nil {
							return err
						}
					}
					<-time.After(window)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}

		mu.Lock()
		defer mu.Unlock()
		latest := map[time.Duration]int{}
		sum := 0
		for _, at := range writes {
			if age := time.Since(at); age < 10*time.Second {
				latest[age/window]++
				sum++
			}
		}
		if sum < 4*consumers || sum > 6*consumers {
			t.Errorf("%d writes in 10 s, want about one in 2 s of each of %d consumers", sum, consumers)
		}
		for age, count := range latest {
			if count > consumers/4 {
				t.Errorf("%d of %d consumers recorded in the same %s, %s before the end", count, consumers, window, age*window)
			}
		}
	})
}
