package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defaults of [ConsumerThresholds].
const (
	// DefaultConsumerThresholdMinPercent is also the smallest valid value.
	DefaultConsumerThresholdMinPercent = 1
	// DefaultConsumerThresholdMaxPercent is also the largest valid value.
	DefaultConsumerThresholdMaxPercent = 100
)

// ConsumerThresholds are the bounds of the percentages in the QuotaAlerts of consumers. A percentage from before a
// change of the bounds counts as the nearest bound.
type ConsumerThresholds struct {
	// MinPercent is the lowest percentage: 1 to 100. Default: 1.
	MinPercent int `json:"minPercent,omitempty"`
	// MaxPercent is the highest percentage: minPercent to 100. Default: 100.
	MaxPercent int `json:"maxPercent,omitempty"`
}

// Allow reports whether a percentage is within the bounds.
func (t ConsumerThresholds) Allow(percent int) bool { return t.Clamp(percent) == percent }

// Clamp returns the percentage within the bounds that is nearest to percent.
func (t ConsumerThresholds) Clamp(percent int) int {
	return max(t.MinPercent, min(percent, t.MaxPercent))
}

func (t *ConsumerThresholds) setDefaults() {
	setDefault(&t.MinPercent, DefaultConsumerThresholdMinPercent)
	setDefault(&t.MaxPercent, DefaultConsumerThresholdMaxPercent)
}

func (t ConsumerThresholds) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.MinPercent < DefaultConsumerThresholdMinPercent || t.MinPercent > DefaultConsumerThresholdMaxPercent {
		errs = append(errs, field.Invalid(path.Child("minPercent"), t.MinPercent, "must be from 1 to 100"))
	}
	switch {
	case t.MaxPercent < DefaultConsumerThresholdMinPercent || t.MaxPercent > DefaultConsumerThresholdMaxPercent:
		errs = append(errs, field.Invalid(path.Child("maxPercent"), t.MaxPercent, "must be from 1 to 100"))
	case t.MinPercent > t.MaxPercent:
		errs = append(errs, field.Invalid(path.Child("maxPercent"), t.MaxPercent, fmt.Sprintf("must be at least the lowest percentage, %d", t.MinPercent)))
	}
	return errs
}
