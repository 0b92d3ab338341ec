package standalone

import "testing"

// The heap never grows by more than a quarter of the memory.
func TestTunerBoundsGrowth(t *testing.T) {
	const gibibyte = 1 << 30
	tests := map[string]struct {
		reason            string
		memory, growthMax uint64
	}{
		"Container": {"a small container has little to spare", 2 * gibibyte, gibibyte / 2},
		"Machine":   {"a large machine may spare more", 64 * gibibyte, 16 * gibibyte},
		"Unknown":   {"zero means no bound", 0, 0},
	}
	for name, tt := range tests {
		if got := tuner(tt.memory).GrowthMax; got != tt.growthMax {
			t.Errorf("%s: the heap may grow by %d bytes, want %d: %s", name, got, tt.growthMax, tt.reason)
		}
	}
}
