package usage

import (
	"math"
	"testing"
)

func TestLevel(t *testing.T) {
	tests := map[string]struct {
		reason      string
		used, limit int64
		before      Level
		threshold   int
		want        Level
	}{
		"nothing":            {"who uses nothing is near nothing", 0, 0, Below, 80, Below},
		"less":               {"", 79, 100, Below, 80, Below},
		"threshold":          {"it counts as near", 80, 100, Below, 80, Near},
		"exactly":            {"29 percent of 100 is not less than 29", 29, 100, Below, 29, Near},
		"a little less":      {"it stays near", 76, 100, Near, 80, Near},
		"less by five":       {"and not for ever", 75, 100, Near, 80, Below},
		"all":                {"", 100, 100, Near, 80, Reached},
		"not quite all":      {"it stays there", 96, 100, Reached, 80, Reached},
		"less than all":      {"", 95, 100, Reached, 80, Near},
		"more":               {"", 101, 100, Near, 80, Exceeded},
		"no more than all":   {"what is not exceeded is not", 100, 100, Exceeded, 80, Reached},
		"far less":           {"", 10, 100, Exceeded, 80, Below},
		"nothing granted":    {"something is more than nothing", 1, 0, Below, 80, Exceeded},
		"early threshold":    {"somebody wants to know at once", 1, 100, Below, 1, Near},
		"late threshold":     {"the threshold may be the limit", 99, 100, Below, 100, Below},
		"one of one":         {"a limit of one has nothing between", 1, 1, Below, 80, Reached},
		"none of one":        {"", 0, 1, Reached, 80, Below},
		"as much as is":      {"no amount is too large", math.MaxInt64, math.MaxInt64, Below, 80, Reached},
		"given up by others": {"a lower limit", 50, 40, Below, 80, Exceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (Usage{Used: tt.used, Limit: tt.limit}).Level(tt.before, tt.threshold); got != tt.want {
				t.Errorf("%s: got %d, want %d", tt.reason, got, tt.want)
			}
		})
	}
}
