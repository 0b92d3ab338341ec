package ledgerstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
)

func BenchmarkReserve(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			p := start(b, storagetest.New(), nil)
			p.limit(b, ledger.AmountMax)
			objects := p.Inventory.(*inventoryOf)
			var next atomic.Int64
			var showing sync.Mutex // versions come in order
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						key := fmt.Sprintf("p/%d", n)
						if _, err := storagetest.Reserve(b.Context(), p, acme, awaiting(key, 1)); err != nil {
							b.Error(err)
							return
						}
						uid := ledgerstore.ObjectUID(key)
						showing.Lock()
						objects.show(widgets, uid, nextVersion(), 1)
						showing.Unlock()
						p.ObjectChanged(types.UID(uid), []quotav1alpha1.ConsumerRef{acme})
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

// BenchmarkPreload starts with many ledgers with a reservation each, on storage that takes a millisecond to answer.
func BenchmarkPreload(b *testing.B) {
	for _, count := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("ledgers=%d", count), func(b *testing.B) {
			snapshot := ledger.Snapshot{Grants: grants(10), Sequence: 1, Reservations: []ledger.Reservation{reservation("p/1", 1)}}
			snapshot.Reservations[0].Sequence = 1
			ledgers := make([]quotav1alpha1.ConsumerLedger, count)
			for n := range ledgers {
				consumer := quotav1alpha1.ConsumerRef{APIGroup: "platform", Kind: "Organization", Name: fmt.Sprint("c", n)}
				ledgers[n].Name, ledgers[n].ResourceVersion = naming.Ledger(consumer), "1"
				ledgers[n].Spec = ledgerstore.SpecOf(consumer, snapshot)
			}
			slow := func(context.Context, storagetest.Call) storagetest.Fault {
				time.Sleep(time.Millisecond)
				return storagetest.None
			}
			for b.Loop() {
				p := start(b, storagetest.New(), slow)
				if err := p.Preload(b.Context(), ledgers); err != nil {
					b.Fatal(err)
				}
				if got := len(p.Reservations()); got != count {
					b.Fatalf("the start knows %d reservations, want %d", got, count)
				}
				p.stop()
			}
		})
	}
}
