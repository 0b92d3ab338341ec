package ledger_test

import (
	"math"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

func TestAmount(t *testing.T) {
	const largest = ledger.Amount(math.MaxInt64)
	type result struct {
		amount ledger.Amount
		ok     bool
	}
	for name, c := range map[string]struct {
		reason   string
		a, b     ledger.Amount
		sum, sub result
	}{
		"small":            {"plain arithmetic", 5, 3, result{8, true}, result{2, true}},
		"zero":             {"zero is an amount", 0, 0, result{0, true}, result{0, true}},
		"equal":            {"all of it can be taken", 7, 7, result{14, true}, result{0, true}},
		"below zero":       {"no more can be taken than there is", 3, 5, result{8, true}, result{}},
		"to the largest":   {"the largest amount is one", largest - 1, 1, result{largest, true}, result{largest - 2, true}},
		"past the largest": {"a sum must not wrap", largest, 1, result{}, result{largest - 1, true}},
		"twice":            {"a sum must not wrap to a positive number either", largest, largest, result{}, result{0, true}},
		"negative a":       {"a negative number is no amount", -1, 3, result{}, result{}},
		"negative b":       {"adding a negative number must not subtract", 5, -3, result{}, result{}},
		"smallest":         {"negating the smallest number would wrap", 1, math.MinInt64, result{}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			if amount, ok := c.a.Add(c.b); (result{amount, ok}) != c.sum {
				t.Errorf("%d + %d = %d, %t; want %+v: %s", c.a, c.b, amount, ok, c.sum, c.reason)
			}
			if amount, ok := c.a.Sub(c.b); (result{amount, ok}) != c.sub {
				t.Errorf("%d - %d = %d, %t; want %+v: %s", c.a, c.b, amount, ok, c.sub, c.reason)
			}
		})
	}
}
