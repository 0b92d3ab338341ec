package gctuner

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr/testr"
)

func TestLimitMemory(t *testing.T) {
	const none = int64(math.MaxInt64)
	tests := map[string]struct {
		reason      string
		limit       memlimit.Provider
		environment string
		want        int64
	}{
		"Container":  {"there has to be room for what is not heap", memlimit.Limit(1000), "", 850},
		"NoLimit":    {"a process outside of containers may use what there is", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, "", none},
		"Unreadable": {"that the limit cannot be told is no reason not to run", func() (uint64, error) { return 0, errors.New("broken") }, "", none},
		"SaidByUser": {"whoever sets GOMEMLIMIT knows better", memlimit.Limit(1000), "1GiB", none},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := debug.SetMemoryLimit(none)
			t.Cleanup(func() { debug.SetMemoryLimit(before) })
			if tt.environment != "" {
				t.Setenv("GOMEMLIMIT", tt.environment) // Go reads it only at the start of a process
			}
			LimitMemory(testr.New(t), tt.limit)
			if got := debug.SetMemoryLimit(-1); got != tt.want {
				t.Errorf("%s: the limit is %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}

func TestSmallest(t *testing.T) {
	unknown := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	tests := map[string]struct {
		reason             string
		container, machine memlimit.Provider
		want               uint64
	}{
		"Container":    {"a container may have less than its machine", memlimit.Limit(1), memlimit.Limit(2), 1},
		"LargeLimit":   {"a limit above the machine's memory bounds nothing", memlimit.Limit(2), memlimit.Limit(1), 1},
		"NoLimit":      {"without a limit there is the machine's memory", unknown, memlimit.Limit(2), 2},
		"NoneIsKnown":  {"zero means unknown", unknown, unknown, 0},
		"OtherSystems": {"the machine's memory may be unknown", memlimit.Limit(1), unknown, 1},
	}
	for name, tt := range tests {
		if got := smallest(tt.container, tt.machine); got != tt.want {
			t.Errorf("%s: got %d, want %d: %s", name, got, tt.want, tt.reason)
		}
	}
}
