// Package gctuner bounds the garbage in the Go heap: it sets the garbage collector's percentage from the size of the
// live heap, and returns the memory of a quiet process to the system. Packages cli and standalone import it.
package gctuner

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Tuner bounds the growth of the heap between two garbage collections. The growth is a part of the live heap, stacks
// and globals.
type Tuner struct {
	// Headroom is the growth in bytes, within the other bounds.
	Headroom uint64
	// PercentMin and PercentMax bound the growth in percent.
	PercentMin, PercentMax int
	// GrowthMax bounds the growth in bytes and overrides PercentMin. Zero means no bound.
	GrowthMax uint64
}

// Start tunes the process for the rest of its life, unless the user set GOGC. After every collection it adjusts the
// percentage. While the process is quiet it returns memory to the system.
func (p Tuner) Start() {
	if os.Getenv("GOGC") == "" {
		p.adjust()
		p.adjustAfterCollection()
		go returnWhenQuiet()
	}
}

// adjustAfterCollection makes the next collection adjust the one after it: it registers a cleanup of an unreachable
// object.
func (p Tuner) adjustAfterCollection() {
	runtime.AddCleanup(new(*byte), func(struct{}) {
		p.adjust()
		p.adjustAfterCollection()
	}, struct{}{})
}

func (p Tuner) adjust() {
	// The percentage refers to all of these.
	marked := []metrics.Sample{{Name: liveHeap}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(marked)
	debug.SetGCPercent(p.percentFor(marked[0].Value.Uint64() + marked[1].Value.Uint64() + marked[2].Value.Uint64()))
}

// percentFor returns the growth of the heap in percent of the marked memory.
func (p Tuner) percentFor(marked uint64) int {
	marked = max(marked, 1)
	percent := min(max(p.Headroom*100/marked, uint64(p.PercentMin)), uint64(p.PercentMax))
	if p.GrowthMax > 0 {
		percent = min(percent, max(p.GrowthMax*100/marked, 1))
	}
	return int(percent)
}
