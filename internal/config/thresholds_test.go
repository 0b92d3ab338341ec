package config

import "testing"

func TestConsumerThresholds(t *testing.T) {
	bounds := ConsumerThresholds{MinPercent: 20, MaxPercent: 90}
	for name, tt := range map[string]struct {
		reason        string
		percent, want int
	}{
		"Lower":  {"the lower bound is allowed", 20, 20},
		"Upper":  {"the upper bound is allowed", 90, 90},
		"Middle": {"what is between them is allowed", 55, 55},
		"Below":  {"the lower bound is the nearest", 19, 20},
		"Above":  {"the upper bound is the nearest", 91, 90},
	} {
		t.Run(name, func(t *testing.T) {
			if got, isAllowed := bounds.Clamp(tt.percent), bounds.Allow(tt.percent); got != tt.want || isAllowed != (tt.percent == tt.want) {
				t.Errorf("%s: of %d got %d, allowed %t", tt.reason, tt.percent, got, isAllowed)
			}
		})
	}
}
