package standalone

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapHeadroom is by how many bytes the heap may at least grow between two garbage collections.
	// An API server allocates much and keeps little: with Go's default, a small server collects
	// several times a second and spends a fifth of its processor time on it.
	heapHeadroom = 768 << 20
	// gcPercentMin applies where the heap is so large that it may grow by more than the headroom. Its
	// objects are small and full of pointers, so that a collection costs more than it does elsewhere.
	gcPercentMin = 200
	// gcPercentMax keeps what is set within reason while there is hardly any heap yet.
	gcPercentMax = 2000

	liveHeap = "/gc/heap/live:bytes"
)

// relaxGarbageCollector gives the heap its headroom, unless the user set GOGC. It adjusts itself
// after every collection for as long as the process lives.
func relaxGarbageCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercentMax)
		adjustAfterCollection()
	}
}

// adjustAfterCollection makes the next collection adjust the one after it: what nothing refers
// to is cleaned up once it was found to be so.
func adjustAfterCollection() {
	runtime.AddCleanup(new(*byte), func(struct{}) {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		debug.SetGCPercent(gcPercentFor(sample[0].Value.Uint64()))
		adjustAfterCollection()
	}, struct{}{})
}

// gcPercentFor returns how much the heap may grow, in percent of what was live last.
func gcPercentFor(live uint64) int {
	if live == 0 {
		return gcPercentMax
	}
	return int(min(max(heapHeadroom*100/live, gcPercentMin), gcPercentMax))
}
