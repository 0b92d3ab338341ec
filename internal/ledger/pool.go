package ledger

// Pool is the quota that claims with some dimensions may use, of one resource type: their own allowances, and those
// which they share with claims of other dimensions. Nothing of it is in slices in a copy of a ledger without slices.
type Pool struct {
	// Limit is the sum of the allowances in the pool.
	Limit Amount
	// Used is what claims of any dimensions take of the pool: together with Available it is the limit. It is more if
	// claims that may use the pool are beyond their limit.
	Used Amount
	// Available is the largest amount of a single claim that the pool can pay for.
	Available Amount
}

// Pool returns the pool of claims with exactly these dimensions. It is zero for an unknown resource type.
func (l *Ledger) Pool(resourceType string, d Dimensions) Pool {
	return l.poolOf(resourceType, func(requirements []Requirement) bool { return matchesAll(requirements, d) })
}

// PoolOfAll returns the pool that every claim with these dimensions may use, whatever further dimensions it has. So an
// allowance for everything but one model is not in the pool of all claims without dimensions.
func (l *Ledger) PoolOfAll(resourceType string, d Dimensions) Pool {
	return l.poolOf(resourceType, func(requirements []Requirement) bool { return coversAll(requirements, d) })
}

// LimitWith returns the sum of the allowances that some claim with these dimensions may use, with any further
// dimensions. No claim with them has a larger limit. Without dimensions it is the limit of the whole resource type.
func (l *Ledger) LimitWith(resourceType string, d Dimensions) Amount {
	var limit Amount
	if a := l.accounts[resourceType]; a != nil {
		for selector, amount := range a.allowances {
			if selector.MayMatch(d) {
				limit += amount
			}
		}
	}
	return limit
}

func (l *Ledger) poolOf(resourceType string, isIn func([]Requirement) bool) Pool {
	a := l.accounts[resourceType]
	if a == nil {
		return Pool{}
	}
	if a.selective {
		return a.maxFlow().pool(isIn)
	}
	return Pool{Limit: a.limit, Used: a.total(), Available: a.headroom()}
}

// pool returns the pool of the supplies with some requirements. It leaves the flow maximal.
func (f *flow) pool(isIn func([]Requirement) bool) Pool {
	var p Pool
	trial := &demand{paidBy: make([]Amount, len(f.supplies))}
	isPayer := make([]bool, len(f.supplies))
	for s := range f.supplies {
		if isPayer[s] = isIn(f.supplies[s].requirements); isPayer[s] {
			trial.payers = append(trial.payers, s)
			p.Limit += f.supplies[s].capacity
		}
	}

	p.Available = f.route(trial, p.Limit)
	f.refund(trial)

	p.Used = p.Limit - p.Available
	for _, n := range f.demands {
		for _, s := range n.payers {
			if isPayer[s] {
				p.Used = p.Used.AddUpTo(n.amount - n.paid)
				break
			}
		}
	}
	return p
}

// Covers reports whether the selector holds for all claims with these dimensions, whatever further dimensions they
// have.
func (s Selector) Covers(d Dimensions) bool { return coversAll(s.Requirements(), d) }

func coversAll(requirements []Requirement, d Dimensions) bool {
	for i := range requirements {
		if _, present := d.Get(requirements[i].Key); !present || !requirements[i].matches(d) {
			return false
		}
	}
	return true
}

// MayMatch reports whether the selector holds or may hold for a claim with these dimensions, and further ones.
func (s Selector) MayMatch(d Dimensions) bool {
	for _, r := range s.Requirements() {
		if _, present := d.Get(r.Key); present && !r.matches(d) {
			return false
		}
	}
	return true
}
