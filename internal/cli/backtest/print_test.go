package backtest

import "testing"

func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		denied, objects int
		want            string
	}{
		{0, 1, "would not have denied the only object that it charges"},
		{1, 1, "would have denied the only object that it charges"},
		{0, 3, "would have denied none of the 3 objects that it charges"},
		{1, 3, "would have denied 1 of the 3 objects that it charges"},
	} {
		if got := Outcome(tt.denied, tt.objects); got != tt.want {
			t.Errorf("%d of %d: got %q, want %q", tt.denied, tt.objects, got, tt.want)
		}
	}
}
