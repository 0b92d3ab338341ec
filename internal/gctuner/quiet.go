package gctuner

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// checkInterval is the time between two checks for surplus memory.
	checkInterval = 10 * time.Second
	// quietChecks is the number of checks without a collection between them before a process counts as quiet.
	quietChecks = 2
	// surplusMin and liveShare bound the surplus that is worth a collection: the latter is a share of the live heap.
	surplusMin = 64 << 20
	liveShare  = 4
)

const liveHeap = "/gc/heap/live:bytes"

// heap is a reading of the process's heap.
type heap struct {
	collections uint64
	// live is the size of the objects found by the latest collection, allocated the size of all objects.
	live, allocated uint64
	// free is unused memory not yet returned to the system.
	free uint64
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: liveHeap}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heap{
		collections: samples[0].Value.Uint64(), live: samples[1].Value.Uint64(),
		allocated: samples[2].Value.Uint64(), free: samples[3].Value.Uint64(),
	}
}

// isWorthReturning reports whether the surplus of the heap justifies a collection.
func (h heap) isWorthReturning() bool {
	garbage := h.allocated - min(h.live, h.allocated)
	return garbage+h.free > max(surplusMin, h.live/liveShare)
}

// quiet decides when a process is quiet.
type quiet struct {
	collections uint64
	checks      int // since the latest collection
}

// check reports whether the process is quiet and has a surplus.
func (q *quiet) check(h heap) bool {
	if h.collections != q.collections {
		*q = quiet{collections: h.collections}
		return false
	}
	q.checks++
	return q.checks >= quietChecks && h.isWorthReturning()
}

// returnSurplus returns surplus memory to the system if the process is quiet.
func (q *quiet) returnSurplus() {
	if q.check(readHeap()) {
		debug.FreeOSMemory()
	}
}

// returnWhenQuiet returns surplus memory to the system whenever the process is quiet. Go itself returns only the memory
// above the size of its next collection, and this size grows with the live heap.
func returnWhenQuiet() {
	var q quiet
	for range time.Tick(checkInterval) {
		q.returnSurplus()
	}
}
