package cli

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"

	"github.com/bursar/bursar/internal/gctuner"
)

// memoryShare is the share of the container's memory at which the garbage collector works harder. The rest is for
// memory that it does not count, and for allocations during a collection.
const memoryShare = 0.85

// heapTuner keeps Go's default for a small heap, and a smaller percentage for a large one: a replica keeps much and
// allocates little.
var heapTuner = gctuner.Tuner{Headroom: 64 << 20, PercentMin: 25, PercentMax: 100}

// limitMemory keeps Go's memory below the limit of its container, unless the user set GOMEMLIMIT. Without a limit, or
// if it is unknown, Go's defaults apply.
func limitMemory(logger logr.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.Error(err, "the memory limit of the container cannot be read, so none is minded")
	case bytes != math.MaxInt64:
		logger.Info("memory is kept below its limit", "goMemoryLimitBytes", bytes)
	}
}
