package standalone

import (
	"sync"

	"github.com/bursar/bursar/internal/gctuner"
)

// growthShare is the share of the memory, as a divisor, by which the heap may grow between two collections.
const growthShare = 4

// tuner lets a small heap grow by much: an API server allocates much and keeps little. With Go's default, a small
// server collects several times a second and spends a fifth of its CPU time on it. The growth of a large heap follows
// its size. With memory bytes in all, it never exceeds a share of them.
func tuner(memory uint64) gctuner.Tuner {
	return gctuner.Tuner{Headroom: 768 << 20, PercentMin: 100, PercentMax: 2000, GrowthMax: memory / growthShare}
}

// startTuner tunes the process once, however many servers it runs.
var startTuner = sync.OnceFunc(func() { tuner(gctuner.Memory()).Start() })
