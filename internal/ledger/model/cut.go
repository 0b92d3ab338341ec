package model

import (
	"math/big"

	"github.com/bursar/bursar/internal/ledger"
)

// demand is the demand for one resource type by dimension set.
type demand map[ledger.Dimensions]*big.Int

func (d demand) add(dimensions ledger.Dimensions, amount ledger.Amount) {
	if d[dimensions] == nil {
		d[dimensions] = new(big.Int)
	}
	d[dimensions].Add(d[dimensions], big.NewInt(int64(amount)))
}

func (d demand) total() *big.Int {
	sum := new(big.Int)
	for _, amount := range d {
		sum.Add(sum, amount)
	}
	return sum
}

// demand adds up observed demand and reservations.
func (m *Model) demand(resourceType string) demand {
	d := demand{}
	for _, o := range m.observations {
		for _, observed := range o.Demands {
			if observed.ResourceType == resourceType {
				d.add(observed.Dimensions, observed.Amount)
			}
		}
	}
	for _, r := range m.reservations {
		for _, c := range r.Charges {
			if c.ResourceType == resourceType {
				d.add(c.Dimensions, c.Amount)
			}
		}
	}
	return d
}

// allowances adds up the grants by selector.
func (m *Model) allowances(resourceType string) map[ledger.Selector]ledger.Amount {
	sums := map[ledger.Selector]ledger.Amount{}
	for _, g := range m.grants {
		for _, a := range g.Allowances {
			if a.ResourceType == resourceType {
				sums[a.Selector] += a.Amount
			}
		}
	}
	return sums
}

func (m *Model) matching(resourceType string, d ledger.Dimensions) ledger.Amount {
	var sum ledger.Amount
	for s, amount := range m.allowances(resourceType) {
		if s.Matches(d) {
			sum += amount
		}
	}
	return sum
}

// paid is the largest payable part of the demand. It is the minimum, over all sets of selectors, of the allowances of
// the set plus the demand matched by a selector outside of it. In other words: all demand except the demand matched
// only by selectors in the set.
//
// This is the capacity of a cut. The edges of a demand carry any amount. So a demand stays on the side of the source
// only if each of its edges ends at a cut allowance.
func (m *Model) paid(resourceType string, d demand) *big.Int {
	allowances := m.allowances(resourceType)
	selectors := make([]ledger.Selector, 0, len(allowances))
	for s := range allowances {
		selectors = append(selectors, s)
	}
	matches := map[ledger.Dimensions]uint{}
	for dimensions := range d {
		for i, s := range selectors {
			if s.Matches(dimensions) {
				matches[dimensions] |= 1 << i
			}
		}
	}
	least := d.total()
	for set := uint(0); set < 1<<len(selectors); set++ {
		cut := new(big.Int)
		for i, s := range selectors {
			if set&(1<<i) != 0 {
				cut.Add(cut, big.NewInt(int64(allowances[s])))
			}
		}
		for dimensions, amount := range d {
			if matches[dimensions]&^set != 0 {
				cut.Add(cut, amount)
			}
		}
		if cut.Cmp(least) < 0 {
			least = cut
		}
	}
	return least
}

// Unpaid is the part of the demand beyond all allowances.
func (m *Model) Unpaid(resourceType string) *big.Int {
	d := m.demand(resourceType)
	return new(big.Int).Sub(d.total(), m.paid(resourceType, d))
}
