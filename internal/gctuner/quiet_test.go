package gctuner

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestQuiet(t *testing.T) {
	full := heap{live: 1000 * mebibyte, allocated: 1200 * mebibyte, free: 100 * mebibyte}
	collected := full
	collected.collections++
	tests := map[string]struct {
		reason   string
		readings []heap
		want     bool
	}{
		"Quiet":       {"nothing was collected between the checks", []heap{collected, collected, collected}, true},
		"TooSoon":     {"a pause is no quiet", []heap{collected, collected}, false},
		"Busy":        {"the latest collection starts the count again", []heap{full, full, collected}, false},
		"AtTheStart":  {"a process may never have collected", []heap{full, full}, true},
		"LargeHeap":   {"a collection of a large heap needs a large surplus", []heap{{live: 1000 * mebibyte, allocated: 1200 * mebibyte}, {live: 1000 * mebibyte, allocated: 1200 * mebibyte}, {live: 1000 * mebibyte, allocated: 1200 * mebibyte}}, false},
		"SmallHeap":   {"a small surplus is worth no collection", []heap{{live: mebibyte, free: 60 * mebibyte}, {live: mebibyte, free: 60 * mebibyte}, {live: mebibyte, free: 60 * mebibyte}}, false},
		"AfterABurst": {"free memory is a surplus too", []heap{{live: mebibyte, free: 70 * mebibyte}, {live: mebibyte, free: 70 * mebibyte}, {live: mebibyte, free: 70 * mebibyte}}, true},
	}
	for name, tt := range tests {
		var q quiet
		var got bool
		for _, h := range tt.readings {
			got = q.check(h)
		}
		if got != tt.want {
			t.Errorf("%s: got %t, want %t: %s", name, got, tt.want, tt.reason)
		}
	}
}

// A burst's garbage goes back to the system, although the heap may grow without bound.
func TestReturnSurplus(t *testing.T) {
	const burst = 200 * mebibyte
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	garbage := make([]byte, burst)
	runtime.KeepAlive(garbage)
	var q quiet
	for range quietChecks + 1 {
		q.returnSurplus()
	}
	if h := readHeap(); h.allocated+h.free > burst/2 {
		t.Errorf("%d MiB are allocated and %d MiB free, want less than half of the burst of %d MiB", h.allocated/mebibyte, h.free/mebibyte, burst/mebibyte)
	}
}
