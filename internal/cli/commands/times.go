package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/cli/history"
	"github.com/bursar/bursar/internal/cli/request"
)

// parseDays parses the duration of a flag. It accepts days and weeks. An empty text is 0.
func parseDays(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	parsed, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("--%s: %q is not a duration such as 30d or 12h", flag, text)
	}
	return time.Duration(parsed), nil
}

// parsePeriod returns the end in --until or --by, counted from now. Without either it is nil: there is no end.
func parsePeriod(until, by string) (*metav1.Time, error) {
	end, err := request.ParseEnd(until)
	if err != nil {
		return nil, err
	}
	length, err := parseDays("by", by)
	switch {
	case err != nil:
		return nil, err
	case until != "" && by != "":
		return nil, errors.New("--until and --by: choose one")
	case by != "":
		end = time.Now().Add(length).Truncate(time.Second)
	case until == "":
		return nil, nil //nolint:nilnil // a period without an end
	}
	return new(metav1.NewTime(end)), nil
}

// parseMoment parses a flag with a date, a time, or a duration before now. An empty text is the zero time.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	moment, err := history.ParseMoment(text, now)
	if err != nil {
		return moment, fmt.Errorf("--%s: %w", flag, err)
	}
	return moment, nil
}
