package message

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 quotas", 1: "1 quota", 2: "2 quotas"} {
		if got := Count(n, "quota", "quotas"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
