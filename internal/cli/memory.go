package cli

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"

	"github.com/bursar/bursar/internal/gctuner"
)

// memoryShare is the share of the memory of its container at which the garbage collector starts to work harder. The
// rest is for what it does not count, and for what is allocated while it works.
const memoryShare = 0.85

// heapTuner is Go's default for a heap that is small, and less for one that is large: a replica keeps much and allocates
// little.
var heapTuner = gctuner.Tuner{Headroom: 64 << 20, PercentMin: 25, PercentMax: 100}

// limitMemory keeps Go's memory below the limit of its container, unless the user set GOMEMLIMIT. Where there is no
// limit, or none can be found, memory is what Go's own defaults make of it.
func limitMemory(logger logr.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.Error(err, "the memory limit of the container cannot be read, so none is minded")
	case bytes != math.MaxInt64:
		logger.Info("memory is kept below its limit", "goMemoryLimitBytes", bytes)
	}
}
