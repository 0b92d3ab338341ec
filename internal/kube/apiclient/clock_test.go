package apiclient

import (
	"net/http"
	"strings"
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
		"imprecise": {"nobody knows when the answer was stamped", 20 * time.Second, time.Minute, 0},
		"slow":      {"this machine's clock may be wrong by hours", 5 * time.Hour, 2 * time.Second, 5 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock Clock
				sent := time.Now()
				time.Sleep(tc.took / 2)
				answer := &http.Response{Header: http.Header{"Date": {time.Now().Add(tc.ahead).UTC().Format(http.TimeFormat)}}}
				time.Sleep(tc.took / 2)
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

// An equal reading leaves the clock as it is, so the clock does not step back. A precise reading replaces an imprecise
// one at once.
func TestServerClockIsSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock Clock
		answer := func(ahead, took time.Duration) {
			sent := time.Now()
			time.Sleep(took / 2)
			stamped := time.Now().Add(ahead).UTC().Format(http.TimeFormat)
			time.Sleep(took / 2)
			clock.observe(sent, &http.Response{Header: http.Header{"Date": {stamped}}})
		}
		answer(5*time.Minute, 30*time.Second)
		answer(4*time.Minute, 10*time.Millisecond)
		if got := time.Until(clock.Now()); (got - 4*time.Minute).Abs() > clockPrecision {
			t.Errorf("it is %s ahead after a more precise answer, want 4m", got)
		}
		for range 20 {
			before := time.Until(clock.Now())
			time.Sleep(clockInterval + 370*time.Millisecond)
			answer(4*time.Minute, 10*time.Millisecond)
			if got := time.Until(clock.Now()); got != before {
				t.Fatalf("it is %s ahead, and was %s", got, before)
			}
		}
	})
}

// The clock goes on by monotonic time. It does not jump when somebody sets the machine's clock.
func TestServerClockIsMonotonic(t *testing.T) {
	var clock Clock
	clock.observe(time.Now(), &http.Response{Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}})
	if at := clock.reading.Load().at.String(); !strings.Contains(at, " m=") {
		t.Errorf("the clock was read at %s, without the monotonic time", at)
	}
}
