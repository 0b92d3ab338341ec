package review

import (
	"net/http/httptest"
	"testing"
	"time"
)

// TestTimeout expects an answer before the caller gives up. An API server rounds the rest of its time up to seconds.
func TestTimeout(t *testing.T) {
	for query, tt := range map[string]struct {
		reason      string
		waits, want time.Duration
	}{
		"":                {"the API server says nothing", 5 * time.Second, 4500 * time.Millisecond},
		"?timeout=6s":     {"it may be 5.001 s", 5 * time.Second, 4500 * time.Millisecond},
		"?timeout=3s":     {"it may be 2.001 s", 2 * time.Second, 1500 * time.Millisecond},
		"?timeout=1s":     {"less than a second is left", 500 * time.Millisecond, 250 * time.Millisecond},
		"?timeout=3.3s":   {"another replica does not round", 3300 * time.Millisecond, 2800 * time.Millisecond},
		"?timeout=0s":     {"no time is no statement", 5 * time.Second, 4500 * time.Millisecond},
		"?timeout=a+week": {"nor is this", 5 * time.Second, 4500 * time.Millisecond},
	} {
		r := httptest.NewRequest("POST", "/"+query, nil)
		if got := patience(r); got != tt.waits {
			t.Errorf("%q: %s: the caller waits %s, want %s", query, tt.reason, got, tt.waits)
		}
		if got := Timeout(r); got != tt.want {
			t.Errorf("%q: %s: got %s, want %s", query, tt.reason, got, tt.want)
		}
	}
}
