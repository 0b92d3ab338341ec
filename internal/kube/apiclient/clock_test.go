package apiclient

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestServerClock(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		ahead  time.Duration
		took   time.Duration
		want   time.Duration
	}{
		"same":      {"whole seconds do not make it jump", 0, 10 * time.Millisecond, 0},
		"ahead":     {"its clock is wrong, or this one's", 5 * time.Minute, 10 * time.Millisecond, 5 * time.Minute},
		"behind":    {"", -5 * time.Minute, 10 * time.Millisecond, -5 * time.Minute},
		"imprecise": {"nobody knows when it was stamped", 5 * time.Minute, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock Clock
				sent := time.Now()
				time.Sleep(tc.took)
				answer := &http.Response{Header: http.Header{"Date": {time.Now().Add(tc.ahead).UTC().Format(http.TimeFormat)}}}
				clock.observe(sent, answer)
				if got := time.Until(clock.Now()); (got - tc.want).Abs() > clockPrecision {
					t.Errorf("%s: it is %s ahead, want %s", tc.reason, got, tc.want)
				}
				clock.observe(time.Now(), &http.Response{})
				time.Sleep(clockInterval)
				clock.observe(time.Now(), &http.Response{Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}})
				if got := time.Until(clock.Now()); got != 0 {
					t.Errorf("it is %s ahead after it was set right", got)
				}
			})
		})
	}
}
