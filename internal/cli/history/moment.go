package history

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ParseMoment parses a date, a time, or a duration before now. An empty text is the zero time.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed, nil
		}
	}
	if ago, err := model.ParseDuration(text); err == nil {
		return now.Add(-time.Duration(ago)), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration such as 30d, nor a date such as 2026-11-01, nor a time such as 2026-11-01T18:00:00Z", text)
}
