package ledgerstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

func BenchmarkReserve(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			p := start(b, storagetest.New(), nil)
			p.limit(b, ledger.AmountMax)
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						key := fmt.Sprintf("p/%d", n)
						decision, err := storagetest.Reserve(b.Context(), p, acme, reservation(key, 1))
						if err != nil {
							b.Error(err)
							return
						}
						p.Settle(acme, key, decision.Sequence)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}
