package gctuner

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/bursar/bursar/test/await"
)

const mebibyte = 1 << 20

func TestPercentFor(t *testing.T) {
	pace := Tuner{Headroom: 768 * mebibyte, PercentMin: 200, PercentMax: 2000}
	bounded := pace
	bounded.GrowthMax = 512 * mebibyte
	tests := map[string]struct {
		reason string
		tuner  Tuner
		marked uint64
		want   int
	}{
		"nothing yet":   {"the first collection is far away", pace, 0, 2000},
		"tiny":          {"the percentage has a bound", pace, mebibyte, 2000},
		"small":         {"100 MiB may grow by the headroom", pace, 100 * mebibyte, 768},
		"half as large": {"the headroom is twice that", pace, 384 * mebibyte, 200},
		"large":         {"a larger one grows by the same part", pace, 7680 * mebibyte, 200},
		"bounded":       {"the bound is below the headroom", bounded, 100 * mebibyte, 512},
		"bounded large": {"the bound is below the minimum", bounded, 5120 * mebibyte, 10},
		"huge":          {"the collector needs some room", bounded, 512 * 1024 * mebibyte, 1},
	}
	for name, tt := range tests {
		if got := tt.tuner.percentFor(tt.marked); got != tt.want {
			t.Errorf("%s: got %d, want %d: %s", name, got, tt.want, tt.reason)
		}
	}
}

// The percentage follows the live heap, unless the user set another.
func TestStart(t *testing.T) {
	const usual = 100
	before := debug.SetGCPercent(usual)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() int {
		now := debug.SetGCPercent(usual)
		debug.SetGCPercent(now)
		return now
	}
	pace := Tuner{Headroom: 10 * mebibyte, PercentMin: 7, PercentMax: 70}
	t.Setenv("GOGC", "100")
	if pace.Start(); percent() != usual {
		t.Errorf("with GOGC set the heap may grow by %d %%, want %d", percent(), usual)
	}
	t.Setenv("GOGC", "")
	if pace.Start(); percent() < 7 || percent() > 70 {
		t.Errorf("at first the heap may grow by %d %%, want 7 to 70", percent())
	}
	kept := make([]byte, 200*mebibyte) // more than the headroom allows
	await.NoError(t, time.Minute, func() error {
		runtime.GC()
		if got := percent(); got != 7 {
			return fmt.Errorf("the heap may grow by %d %%, want 7", got)
		}
		return nil
	})
	runtime.KeepAlive(kept)
}

// The next collection comes before the heap has grown by more than the bound, for any live heap.
func TestGrowthMax(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	const growthMax = 40 * mebibyte
	bounded := Tuner{Headroom: 1 << 40, PercentMin: 200, PercentMax: 2000, GrowthMax: growthMax}
	kept := make([]byte, 100*mebibyte)
	runtime.GC()
	bounded.adjust()
	samples := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: liveHeap}}
	metrics.Read(samples)
	goal, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	if live < 100*mebibyte || goal <= live || goal-live > growthMax {
		t.Errorf("%d MiB are live and the next collection is at %d MiB, want it at most %d MiB later", live/mebibyte, goal/mebibyte, growthMax/mebibyte)
	}
	runtime.KeepAlive(kept)
}
