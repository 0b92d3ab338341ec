package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
)

// The engine repeats a failed request, and makes the claim.
func TestClaimIsMadeDespiteFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.reserve(acme, 2)
		failures := 3
		s.server.Intercept(func(method, _ string) bool {
			if method != http.MethodPost || failures == 0 {
				return false
			}
			failures--
			return true
		})
		s.run(fleets(), fleet("1", "acme", 2))
		s.wantFinally("the claim is made", "acme uses 2, 0 in flight", "claim of acme for 2")
		if failures > 0 {
			t.Errorf("%d failures were left", failures)
		}
	})
}
