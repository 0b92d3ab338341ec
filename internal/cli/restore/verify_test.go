package restore

import (
	"strings"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// TestCompareSums compares ledgers with claims in both directions.
func TestCompareSums(t *testing.T) {
	t.Parallel()
	of := func(name string) balance {
		return balance{consumer: quotav1alpha1.ConsumerRef{Kind: "Organization", Name: name}, resourceType: "maps"}
	}
	for reason, tt := range map[string]struct {
		held, recorded map[balance]sum
		want           string
	}{
		"nothing at all":             {nil, nil, ""},
		"equal":                      {map[balance]sum{of("a"): {2, 1}}, map[balance]sum{of("a"): {2, 1}}, ""},
		"an empty balance":           {nil, map[balance]sum{of("a"): {0, 0}}, ""},
		"less in the ledger":         {map[balance]sum{of("a"): {2, 1}}, nil, "the ledger of Organization a has 0 of maps for 0 claims, and its claims hold 2 in 1 claim"},
		"more in the ledger":         {map[balance]sum{of("a"): {2, 1}}, map[balance]sum{of("a"): {3, 1}}, "has 3 of maps"},
		"more without a claim":       {map[balance]sum{of("a"): {2, 1}}, map[balance]sum{of("a"): {2, 1}, of("b"): {5, 2}}, "the ledger of Organization b has 5 of maps for 2 claims"},
		"the same for fewer claims":  {map[balance]sum{of("a"): {2, 2}}, map[balance]sum{of("a"): {2, 1}}, "has 2 of maps for 1 claim, and its claims hold 2 in 2 claims"},
		"the first of several in it": {map[balance]sum{of("b"): {1, 1}, of("a"): {1, 1}}, nil, "Organization a"},
	} {
		err := compareSums(tt.held, tt.recorded)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", reason, err, tt.want)
		}
	}
}

// TestRestAfter bounds the share of the time for looks at the server.
func TestRestAfter(t *testing.T) {
	t.Parallel()
	for look, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 2 * time.Second: 20 * time.Second, time.Minute: 36 * time.Second,
	} {
		if got := restAfter(look, 6*time.Minute); got != want {
			t.Errorf("after a look of %s the rest is %s, want %s", look, got, want)
		}
	}
}
