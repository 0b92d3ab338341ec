package ledger_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// TestCodePrecedence walks all codes in order: each request has the error of its own code and of every later compatible
// one.
func TestCodePrecedence(t *testing.T) {
	const largest = ledger.Amount(math.MaxInt64)
	tooMany := make([]ledger.Charge, ledger.ChargesMax+1)
	long := strings.Repeat("x", ledger.ClaimBytesMax+1)
	charge := func(resourceType string, d ledger.Dimensions, amount ledger.Amount) ledger.Charge {
		return ledger.Charge{ResourceType: resourceType, Dimensions: d, Amount: amount}
	}
	// gpu has an overdraft in the eu, up to the largest amount, while one is free elsewhere; disk has nearly all its
	// balances. There is room for small reservations only.
	eu, us := dimensionsOf("region", "eu"), dimensionsOf("region", "us")
	l := ledger.New()
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{
		{ResourceType: "gpu", Selector: selectorOf(in("region", "us")), Amount: 1}, {ResourceType: "disk", Amount: largest}}}); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", ledger.ClaimBytesMax)
	for i := range 7 {
		r := ledger.Reservation{Key: fmt.Sprint("large", i), Claim: large[:ledger.ClaimBytesMax*7/8], Charges: []ledger.Charge{charge("disk", ledger.Dimensions{}, 1)}}
		if d := l.Reserve(r); d.Code != ledger.Admitted {
			t.Fatal(d.Code)
		}
	}
	use(t, l, "gpu", eu, largest)
	for i := range ledger.BalancesMax - 1 {
		use(t, l, "disk", dimensionsOf("volume", fmt.Sprint(i)), 1)
	}
	if d := l.Reserve(ledger.Reservation{Key: "known", Charges: []ledger.Charge{charge("disk", dimensionsOf("volume", "0"), 1)}}); d.Code != ledger.Admitted {
		t.Fatalf("the known key: %s", d.Code)
	}

	overflow, full := charge("gpu", us, 1), charge("disk", us, 1)
	steps := []struct {
		code ledger.Code
		r    ledger.Reservation
	}{
		{ledger.KeyInvalid, ledger.Reservation{Claim: long}},
		{ledger.KeyInvalid, ledger.Reservation{Key: strings.Repeat("k", ledger.KeyBytesMax+1), Claim: long}},
		{ledger.Admitted, ledger.Reservation{Key: "known", Claim: long}},
		{ledger.ClaimTooLong, ledger.Reservation{Key: "k", Claim: long}},
		{ledger.ChargesMissing, ledger.Reservation{Key: "k"}},
		{ledger.ChargesTooMany, ledger.Reservation{Key: "k", Charges: tooMany}},
		{ledger.ResourceTypeInvalid, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge("gpu", us, 0), charge("", us, 1)}}},
		{ledger.ResourceTypeInvalid, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge(strings.Repeat("t", ledger.ResourceTypeBytesMax+1), us, 1)}}},
		{ledger.AmountNotPositive, ledger.Reservation{Key: "k", Charges: []ledger.Charge{overflow, overflow, charge("gpu", eu, 0)}}},
		{ledger.AmountNotPositive, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge("gpu", eu, -1)}}},
		{ledger.ChargeRepeated, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge("gpu", us, 9), charge("gpu", us, 1)}}},
		{ledger.Exceeded, ledger.Reservation{Key: "k", Charges: []ledger.Charge{full, overflow, charge("gpu", eu, 1)}}},
		{ledger.Overflow, ledger.Reservation{Key: "k", Charges: []ledger.Charge{full, overflow}}},
		{ledger.BalancesFull, ledger.Reservation{Key: "k", Charges: []ledger.Charge{full}, Claim: large}},
		{ledger.LedgerFull, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge("disk", dimensionsOf("volume", "1"), 1)}, Claim: large}},
		{ledger.Admitted, ledger.Reservation{Key: "k", Charges: []ledger.Charge{charge("disk", dimensionsOf("volume", "1"), 1)}}},
	}
	reached := map[ledger.Code]bool{}
	for _, step := range steps {
		before := string(encode(t, l.Snapshot()))
		d := l.Reserve(step.r)
		if d.Code != step.code {
			t.Errorf("%s comes before its turn, which is of %s", d.Code, step.code)
		}
		if d.Code != ledger.Admitted && before != string(encode(t, l.Snapshot())) {
			t.Errorf("%s changed the ledger", d.Code)
		}
		if (d.Code == ledger.Exceeded) != (len(d.Shortages) > 0) || (d.Code == ledger.Admitted) != (d.Sequence > 0) {
			t.Errorf("%s has shortages %+v and sequence %d", d.Code, d.Shortages, d.Sequence)
		}
		reached[d.Code] = true
	}
	for code := ledger.Admitted; code <= ledger.LedgerFull; code++ {
		if !reached[code] {
			t.Errorf("%s was never decided", code)
		}
		invalid := code >= ledger.KeyInvalid && code < ledger.Exceeded
		if code.Invalid() != invalid || strings.HasPrefix(code.String(), "Code(") {
			t.Errorf("%s: Invalid() = %t", code, code.Invalid())
		}
	}
	if err := l.CheckFlows(); err != nil {
		t.Error(err)
	}
}

func TestShortagesNameEverythingThatFellShort(t *testing.T) {
	p := newPair(t)
	eu, us := dimensionsOf("region", "eu"), dimensionsOf("region", "us")
	p.setGrant(ledger.Grant{UID: "g", Allowances: []ledger.Allowance{
		{ResourceType: "gpu", Amount: 4}, {ResourceType: "gpu", Selector: selectorOf(in("region", "eu")), Amount: 2}, {ResourceType: "cpu", Amount: 8}}})
	p.reserve(ledger.Reservation{Key: "a", Charges: []ledger.Charge{{ResourceType: "gpu", Amount: 1}, {ResourceType: "cpu", Amount: 6}}})
	got := p.ledger.Reserve(ledger.Reservation{Key: "b", Charges: []ledger.Charge{
		{ResourceType: "gpu", Dimensions: us, Amount: 2},
		{ResourceType: "cpu", Amount: 3},
		{ResourceType: "gpu", Dimensions: eu, Amount: 5},
		{ResourceType: "disk", Amount: 1},
	}})
	p.same("the decision", got, ledger.Decision{Code: ledger.Exceeded, Shortages: []ledger.Shortage{
		{ResourceType: "cpu", Requested: 3, Used: 6, Limit: 8, Matching: 8, Available: 2},
		{ResourceType: "gpu", Dimensions: eu, Requested: 5, Used: 1, Limit: 6, Matching: 6, Available: 3},
		{ResourceType: "disk", Requested: 1},
	}})
}
