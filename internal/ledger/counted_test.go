package ledger_test

import (
	"math"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// features are counted and have no limit.
type features struct{}

func (features) IsCountedOnly(resourceType string) bool { return resourceType == "feature" }

func reservationOf(key string, amounts map[string]ledger.Amount) ledger.Reservation {
	r := ledger.Reservation{Key: key, Claim: "c"}
	for _, resourceType := range []string{"cpu", "feature"} {
		if amount := amounts[resourceType]; amount > 0 {
			r.Charges = append(r.Charges, ledger.Charge{ResourceType: resourceType, Amount: amount})
		}
	}
	return r
}

// A counted type never exceeds its limit, and changes nothing for the others in the same reservation.
func TestCountedTypes(t *testing.T) {
	l := ledger.New()
	l.SetTypes(features{})
	if _, err := l.SetGrant(ledger.Grant{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "cpu", Amount: 3}, {ResourceType: "feature", Amount: 1}}}); err != nil {
		t.Fatal(err)
	}
	reserve := func(key string, cpu, feature ledger.Amount) ledger.Decision {
		return l.Reserve(reservationOf(key, map[string]ledger.Amount{"cpu": cpu, "feature": feature}))
	}
	for _, key := range []string{"a", "b", "c"} {
		if d := reserve(key, 1, 5); d.Code != ledger.Admitted {
			t.Fatalf("%s: %+v", key, d)
		}
	}
	if d := reserve("d", 1, 1); d.Code != ledger.Exceeded || len(d.Shortages) != 1 || d.Shortages[0].ResourceType != "cpu" {
		t.Errorf("beyond the limit of cpu: %+v", d)
	}
	if d := reserve("e", 0, 9); d.Code != ledger.Admitted {
		t.Errorf("only the counted type: %+v", d)
	}
	if a := l.Account("feature"); a.Reserved != 24 || a.Limit != 1 {
		t.Errorf("the feature has %+v", a)
	}
	if d := reserve("f", 0, math.MaxInt64); d.Code != ledger.Overflow {
		t.Errorf("more than can be counted: %+v", d)
	}
	use(t, l, "feature", ledger.Dimensions{}, 3)
	if a := l.Account("feature"); a.Used != 3 || a.Reserved != 24 {
		t.Errorf("the feature has %+v", a)
	}
}

// Without a grant there is no account. A denied or checked reservation leaves none behind.
func TestCountedTypeWithoutGrant(t *testing.T) {
	l := ledger.New()
	l.SetTypes(features{})
	both := reservationOf("a", map[string]ledger.Amount{"cpu": 1, "feature": 1})
	if d := l.Reserve(both); d.Code != ledger.Exceeded {
		t.Errorf("without cpu: %+v", d)
	}
	alone := reservationOf("b", map[string]ledger.Amount{"feature": 1})
	if d := l.Check(alone.Charges); d.Code != ledger.Admitted {
		t.Errorf("a check: %+v", d)
	}
	if types := l.ResourceTypes(); len(types) != 0 {
		t.Errorf("there are accounts of %q", types)
	}
	if d := l.Reserve(alone); d.Code != ledger.Admitted {
		t.Errorf("without a grant: %+v", d)
	}
	restored, err := ledger.Restore(l.Snapshot())
	if err != nil || restored.Account("feature").Reserved != 1 {
		t.Errorf("restored: %+v, %v", restored, err)
	}
	l.Cancel("b", 0)
	if types := l.ResourceTypes(); len(types) != 0 {
		t.Errorf("there are accounts of %q", types)
	}
}
