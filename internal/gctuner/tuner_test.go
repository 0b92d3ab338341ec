package gctuner

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/bursar/bursar/test/await"
)

const mebibyte = 1 << 20

func TestPercentFor(t *testing.T) {
	pace := Tuner{Headroom: 768 * mebibyte, PercentMin: 200, PercentMax: 2000}
	tests := map[string]struct {
		reason string
		live   uint64
		want   int
	}{
		"nothing yet":   {"the first collection is far away", 0, 2000},
		"tiny":          {"the percentage has a bound", mebibyte, 2000},
		"small":         {"100 MiB may grow by the headroom", 100 * mebibyte, 768},
		"half as large": {"the headroom is twice that", 384 * mebibyte, 200},
		"large":         {"a larger one grows by the same part", 7680 * mebibyte, 200},
	}
	for name, tt := range tests {
		if got := pace.percentFor(tt.live); got != tt.want {
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
	if pace.Start(); percent() != 70 {
		t.Errorf("at first the heap may grow by %d %%, want 70", percent())
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
