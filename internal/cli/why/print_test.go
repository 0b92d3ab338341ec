package why

import "testing"

func TestNobodyPays(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		e      Explanation
		want   string
	}{
		"free":       {"no policy is for it", Explanation{}, "It needs no quota."},
		"left out":   {"", Explanation{Policies: []Policy{{Matches: "no"}}}, "It needs no quota."},
		"fails":      {"nobody knows what it would ask", Explanation{Policies: []Policy{{isFailed: true}}}, "The quota that it needs is unknown, because a policy fails on it."},
		"denied":     {"something does ask for it", Explanation{isDenied: true}, "No policy that you may read asks quota for it; the answer of the API server gives the reason."},
		"unreadable": {"", Explanation{MayNotReadPolicies: true}, "You may not read the policies, and no claim that you may see is for it: ask an administrator whether it needs quota."},
	} {
		if got := tt.e.noPayment(); got != tt.want {
			t.Errorf("%s: %s: got %q, want %q", name, tt.reason, got, tt.want)
		}
	}
}

// Errors about something else lead to a next step as well.
func TestOtherErrors(t *testing.T) {
	for text, want := range map[string]string{
		`Internal error occurred: failed calling webhook "enforce.quota.miloapis.com"`: otherErrors[0].meaning,
		`ClaimCreationPolicy apps cannot be applied to this object: no such key`:       otherErrors[1].meaning,
		`exceeded ResourceQuotaAllocation: acme`:                                       otherErrors[2].meaning,
		`exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:          otherErrors[5].meaning,
		`connection refused`: "this names no consumer with a lack of quota; docs/tasks/troubleshooting.md lists Bursar's messages and what to do",
	} {
		if _, err := (&Reader{}).Denial(t.Context(), text); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
