package engine

import "testing"

// Every combination of the facts has one action. The first applicable rule decides.
func TestDecideRelease(t *testing.T) {
	for n := range 1 << 6 {
		f := releaseFacts{
			exists: n&1 != 0, hasFinalizer: n&2 != 0, isSuperseded: n&4 != 0, hasEarlyRelease: n&8 != 0, isFromPolicy: n&16 != 0, isGranted: n&32 != 0,
		}
		want := releaseUnlessInUse
		for _, rule := range []struct {
			applies bool
			action  releaseAction
		}{
			{!f.exists, releaseForget},
			{!f.hasFinalizer, releaseForget},
			{f.isSuperseded, releaseNow},
			{f.hasEarlyRelease, releaseNow},
			{!f.isFromPolicy && !f.isGranted, releaseNow},
		} {
			if rule.applies {
				want = rule.action
				break
			}
		}
		if got := decideRelease(f); got != want {
			t.Errorf("%+v: action %d, want %d", f, got, want)
		}
	}
}
