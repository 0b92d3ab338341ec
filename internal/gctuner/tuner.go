// Package gctuner says how much garbage a process may have, by how much it keeps.
package gctuner

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const liveHeap = "/gc/heap/live:bytes"

// Tuner is by how much the heap may grow between two garbage collections.
type Tuner struct {
	// Headroom is by how many bytes, within the other bounds.
	Headroom uint64
	// PercentMin and PercentMax bound that in percent of what was live last.
	PercentMin, PercentMax int
}

// Start keeps the process to the pace, unless the user set GOGC. It adjusts itself after every collection for as long as
// the process lives.
func (p Tuner) Start() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(p.PercentMax)
		p.adjustAfterCollection()
	}
}

// adjustAfterCollection makes the next collection adjust the one after it: what nothing refers
// to is cleaned up once it was found to be so.
func (p Tuner) adjustAfterCollection() {
	runtime.AddCleanup(new(*byte), func(struct{}) {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		debug.SetGCPercent(p.percentFor(sample[0].Value.Uint64()))
		p.adjustAfterCollection()
	}, struct{}{})
}

// percentFor returns how much the heap may grow, in percent of what was live last.
func (p Tuner) percentFor(live uint64) int {
	if live == 0 {
		return p.PercentMax
	}
	return int(min(max(p.Headroom*100/live, uint64(p.PercentMin)), uint64(p.PercentMax)))
}
