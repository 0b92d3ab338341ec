package claimcache

import (
	"fmt"
	"testing"
	"time"
)

// claimsMax is how many claims the benchmark has.
const claimsMax = 1_000_000

// BenchmarkSelect reads a million claims. A writer of the cache may delay the watch of claims, and with it every
// create. The benchmark reports the longest wait of such a writer.
func BenchmarkSelect(b *testing.B) {
	c := New()
	for i := range claimsMax {
		claim := Compact(claimOf(fmt.Sprint("claim-", i), fmt.Sprint("uid-", i), "acme", fmt.Sprint("object-", i)))
		claim.State = Granted
		c.swap(claim.NamespacedName, claim)
	}
	for name, look := range map[string]func(){
		"all":         func() { c.Select(func(claim *Claim) bool { return claim.Deleting }) },
		"of a policy": func() { c.CountOf("policy") },
	} {
		b.Run(name, func(b *testing.B) {
			var waitedMax time.Duration
			for b.Loop() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					look()
				}()
				for isDone := false; !isDone; {
					began := time.Now()
					c.mu.Lock()
					waitedMax = max(waitedMax, time.Since(began))
					c.mu.Unlock()
					select {
					case <-done:
						isDone = true
					case <-time.After(time.Millisecond):
					}
				}
			}
			b.ReportMetric(float64(waitedMax.Microseconds())/1000, "ms-locked-max")
		})
	}
}
