package history

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/journal"
)

// The growth of the window goes on until the limit. Use from before the journal is no growth.
func TestFullIn(t *testing.T) {
	day := 24.0
	for name, tt := range map[string]struct {
		reason  string
		entries entries
		want    time.Duration
		isKnown bool
	}{
		"Grows":   {"2 of 8 in 2 days leave 6 for 6 days", write(web).open(0, 0, 0, 8).maps(day, journal.Admitted, "a", 1).maps(1.5*day, journal.Admitted, "b", 1).written, 6 * 24 * time.Hour, true},
		"Opened":  {"6 were in use when the journal began", write(web).open(0, 0, 6, 8).maps(day, journal.Admitted, "a", 1).written, 2 * 24 * time.Hour, true},
		"Young":   {"the growth of 6 hours tells nothing of the next days", write(web).open(1.75*day, 0, 0, 8).maps(1.8*day, journal.Admitted, "a", 4).written, 0, false},
		"Idle":    {"a day without a change before it is no growth", write(web).open(0, 0, 0, 8).maps(1.8*day, journal.Admitted, "a", 4).written, 0, false},
		"Full":    {"nothing is left", write(web).open(0, 0, 4, 8).maps(day, journal.Admitted, "a", 4).written, 0, true},
		"Over":    {"more is used than the limit", write(web).open(0, 0, 4, 8).maps(day, journal.Admitted, "a", 6).written, 0, true},
		"Shrinks": {"it shrinks", write(web).open(0, 0, 4, 8).maps(day, journal.Released, "a", -2).written, 0, false},
		"Same":    {"it ends as it began", write(web).open(0, 0, 4, 8).maps(day, journal.Admitted, "a", 2).maps(1.5*day, journal.Released, "a", -2).written, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Read(t.Context(), tt.entries, Options{Selection: window(0, 2*day)})
			if err != nil || len(report.Items) != 1 {
				t.Fatalf("got %v and %v, want one account", report, err)
			}
			got, isKnown := report.Items[0].FullIn()
			if got.Round(time.Minute) != tt.want || isKnown != tt.isKnown {
				t.Errorf("%s: got %s, %t, want %s, %t", tt.reason, got, isKnown, tt.want, tt.isKnown)
			}
		})
	}
}
