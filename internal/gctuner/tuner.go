// Package gctuner sets the garbage collector's percentage from the size of the live heap. Packages cli and standalone
// import it.
package gctuner

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const liveHeap = "/gc/heap/live:bytes"

// Tuner bounds the growth of the heap between two garbage collections.
type Tuner struct {
	// Headroom is the growth in bytes, within the other bounds.
	Headroom uint64
	// PercentMin and PercentMax bound the growth in percent of the live heap.
	PercentMin, PercentMax int
}

// Start tunes the process for the rest of its life, after every collection, unless the user set GOGC.
func (p Tuner) Start() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(p.PercentMax)
		p.adjustAfterCollection()
	}
}

// adjustAfterCollection makes the next collection adjust the one after it: it registers a cleanup of an unreachable
// object.
func (p Tuner) adjustAfterCollection() {
	runtime.AddCleanup(new(*byte), func(struct{}) {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		debug.SetGCPercent(p.percentFor(sample[0].Value.Uint64()))
		p.adjustAfterCollection()
	}, struct{}{})
}

// percentFor returns the growth of the heap in percent of the live heap.
func (p Tuner) percentFor(live uint64) int {
	if live == 0 {
		return p.PercentMax
	}
	return int(min(max(p.Headroom*100/live, uint64(p.PercentMin)), uint64(p.PercentMax)))
}
