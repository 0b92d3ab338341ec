package standalone

import "testing"

func TestGCPercentFor(t *testing.T) {
	tests := map[string]struct {
		reason string
		live   uint64
		want   int
	}{
		"nothing yet":   {"the first collection is far away", 0, gcPercentMax},
		"tiny":          {"the percentage has a bound", 1 << 20, gcPercentMax},
		"small":         {"100 MiB may grow by the headroom", 100 << 20, 768},
		"half as large": {"the headroom is twice that", heapHeadroom / 2, 200},
		"large":         {"a larger one grows by the same part", 10 * heapHeadroom, 200},
	}
	for name, tt := range tests {
		if got := gcPercentFor(tt.live); got != tt.want {
			t.Errorf("%s: got %d, want %d: %s", name, got, tt.want, tt.reason)
		}
	}
}
