package gctuner

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// memoryShare is the share of the container's memory from which the garbage collector works harder. The rest is for
// uncounted memory, and for allocations during a collection.
const memoryShare = 0.85

// LimitMemory keeps Go's memory below the limit of its container, unless the user set GOMEMLIMIT. Without a limit, or
// if it is unknown, Go's defaults apply.
func LimitMemory(logger logr.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.Error(err, "cannot read the memory limit of the container, so Go uses none")
	case bytes != math.MaxInt64:
		logger.Info("Go keeps memory below this limit", "goMemoryLimitBytes", bytes)
	}
}

// Memory returns the smaller of the container's memory limit and the machine's memory, or 0 if both are unknown.
func Memory() uint64 { return smallest(memlimit.FromCgroup, memlimit.FromSystem) }

func smallest(limits ...memlimit.Provider) uint64 {
	var least uint64
	for _, limit := range limits {
		if bytes, err := limit(); err == nil && (least == 0 || bytes < least) {
			least = bytes
		}
	}
	return least
}
