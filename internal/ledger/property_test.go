package ledger_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// drawn makes choices with rapid.
type drawn struct{ t *rapid.T }

func (d drawn) choose(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

func TestLedgerAgreesWithModel(t *testing.T) {
	for name, huge := range map[string]bool{"small amounts": false, "amounts near the largest": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := newPair(t)
				for range 30 {
					p.step(drawn{t}, huge)
				}
			})
		})
	}
}

// TestDemandIsAlwaysPaid holds the promise of the ledger against the model: the allowances can pay all demand, as long
// as limits do not shrink and there is neither an overdraft nor a correction.
func TestDemandIsAlwaysPaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := newPair(t), drawn{t}
		p.setGrant(pickGrant(s, false))
		for range 25 {
			r := pickReservation(s, false)
			if p.reserve(r) && s.choose("exists", 2) == 1 {
				p.exists(&r)
			}
			for _, resourceType := range enforcedTypes {
				a := p.ledger.Account(resourceType)
				if a.Used+a.Reserved > a.Limit {
					t.Fatalf("%s: %d used and %d reserved of %d", resourceType, a.Used, a.Reserved, a.Limit)
				}
				if unpaid := p.model.Unpaid(resourceType); unpaid.Sign() != 0 {
					t.Fatalf("%s: no allowance can pay for %s of the demand", resourceType, unpaid)
				}
			}
		}
	})
}

// exists has an object demand what a reservation held for it.
func (p *pair) exists(r *ledger.Reservation) {
	p.same("Cancel", p.ledger.Cancel(r.Key, 0), p.model.Cancel(r.Key, 0))
	o := ledger.Observation{Kind: r.Key, Basis: ledger.Basis{Objects: 1 + p.ledger.Observation(r.Key).Basis.Objects}}
	o.Demands = slices.Clone(p.ledger.Observation(r.Key).Demands)
	for _, c := range r.Charges {
		isSame := func(d ledger.Demand) bool { return d.ResourceType == c.ResourceType && d.Dimensions == c.Dimensions }
		if i := slices.IndexFunc(o.Demands, isSame); i >= 0 {
			o.Demands[i].Amount += c.Amount
			o.Demands[i].Objects++
			continue
		}
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: c.Amount, Objects: 1})
	}
	p.observe(o)
}

// TestAvailableIsTheLargestAdmitted compares Available with the largest amount admitted by Check.
func TestAvailableIsTheLargestAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := newPair(t), drawn{t}
		for range 20 {
			p.step(s, false)
			charge := ledger.Charge{ResourceType: pick(s, "type", enforcedTypes), Dimensions: pick(s, "dimensions", someDimensions)}
			available := p.ledger.Available(charge.ResourceType, charge.Dimensions)
			for amount := max(1, available-1); amount <= available+1; amount++ {
				charge.Amount = amount
				want := ledger.Exceeded
				if amount <= available {
					want = ledger.Admitted
				}
				if got := p.ledger.Check([]ledger.Charge{charge}).Code; got != want {
					t.Fatalf("%d of %d available: %s, want %s", amount, available, got, want)
				}
			}
		}
	})
}
