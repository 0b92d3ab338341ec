package ledger

import "fmt"

// CheckFlows verifies the invariants of the flows between any two operations: they agree with the balances, overdraw no
// allowance, and are maximal.
func (l *Ledger) CheckFlows() error {
	for resourceType, p := range l.accounts {
		if p.pending != 0 {
			return fmt.Errorf("%s: %d is still pending", resourceType, p.pending)
		}
		if p.flow == nil {
			continue
		}
		if err := p.flow.check(p.balances); err != nil {
			return fmt.Errorf("%s: %w", resourceType, err)
		}
	}
	return nil
}

func (f *flow) check(balances map[Dimensions]balance) error {
	drawn := make([]Amount, len(f.supplies))
	var unpaid Amount
	for position, n := range f.demands {
		if r := balances[n.dimensions]; r.demand() != n.amount || n.amount <= 0 {
			return fmt.Errorf("the demand of (%s) is %d but the balance is %+v", n.dimensions, n.amount, r)
		}
		if n.position != position || f.byDimensions[n.dimensions] != n {
			return fmt.Errorf("the demand of (%s) is misfiled", n.dimensions)
		}
		var paid Amount
		for s, amount := range n.paidBy {
			if amount < 0 || amount > 0 && !matchesAll(f.supplies[s].requirements, n.dimensions) {
				return fmt.Errorf("supply %d pays %d of (%s)", s, amount, n.dimensions)
			}
			paid += amount
			drawn[s] += amount
		}
		if paid != n.paid || paid > n.amount {
			return fmt.Errorf("(%s) of %d is paid %d, noted as %d", n.dimensions, n.amount, paid, n.paid)
		}
		unpaid += n.amount - n.paid
		if n.paid < n.amount {
			if _, found := f.search(n); found {
				return fmt.Errorf("the unpaid (%s) could be paid", n.dimensions)
			}
		}
	}
	if unpaid != f.unpaid {
		return fmt.Errorf("%d is unpaid, noted as %d", unpaid, f.unpaid)
	}
	for s, supply := range f.supplies {
		if supply.free < 0 || supply.free+drawn[s] != supply.capacity {
			return fmt.Errorf("supply %d of %d has %d free and %d drawn", s, supply.capacity, supply.free, drawn[s])
		}
	}
	demanded := 0
	for _, r := range balances {
		if r.demand() > 0 {
			demanded++
		}
	}
	if demanded != len(f.demands) || demanded != len(f.byDimensions) {
		return fmt.Errorf("%d balances need something, %d demands", demanded, len(f.demands))
	}
	return nil
}
