package ledger

import (
	"cmp"
	"maps"
	"slices"
)

// flow assigns the demand of dimension sets to the allowances of one resource type. Between calls of its methods it is
// a maximum flow: unpaid demand has no path to an allowance with free capacity, not even if other demand moves to other
// allowances.
type flow struct {
	supplies     []supply
	demands      []*demand // their index is demand.position
	byDimensions map[Dimensions]*demand
	unpaid       Amount // over all demands; zero while they fit the limits

	// search stores the path in via. It reuses all three slices.
	via   []step
	seen  []bool
	queue []int
}

// supply is the sum of the allowances with one selector.
type supply struct {
	requirements []Requirement
	capacity     Amount
	free         Amount // of capacity
}

// demand is the amount needed by one dimension set. A flow keeps no demands of 0.
type demand struct {
	dimensions Dimensions
	position   int
	amount     Amount
	paid       Amount   // at most amount
	payers     []int    // the supplies that match
	paidBy     []Amount // for each supply; adds up to paid
}

// step is one step of a path: a supply can pay demand instead of the supply before. At the start of the path before is
// -1, and the supply pays additional demand.
type step struct {
	demand *demand
	before int
}

// newFlow returns a flow without demand. Supplies with longer selectors come first: using particular supplies before
// general ones keeps later paths short.
func newFlow(allowances map[Selector]Amount) *flow {
	f := &flow{byDimensions: map[Dimensions]*demand{}}
	selectors := slices.SortedFunc(maps.Keys(allowances), func(a, b Selector) int {
		return cmp.Or(-cmp.Compare(len(a.canonical), len(b.canonical)), cmp.Compare(a.canonical, b.canonical))
	})
	for _, s := range selectors {
		f.supplies = append(f.supplies, supply{requirements: s.Requirements(), capacity: allowances[s], free: allowances[s]})
	}
	f.via = make([]step, len(f.supplies))
	f.seen = make([]bool, len(f.supplies))
	return f
}

// admit adds as much of the amount to a demand as the supplies can pay in addition to all paid demand. It returns the
// added amount.
func (f *flow) admit(d Dimensions, amount Amount) Amount {
	n := f.demandOf(d)
	admitted := Amount(0)
	if n.paid == n.amount { // else, the flow being maximal, there is no path
		admitted = f.route(n, amount)
	}
	n.amount += admitted
	f.removeIfEmpty(n)
	return admitted
}

// addUnpaid adds an amount that admit could not add.
func (f *flow) addUnpaid(d Dimensions, amount Amount) {
	if amount == 0 {
		return
	}
	f.demandOf(d).amount += amount
	f.unpaid += amount
}

// reduce takes an amount from a demand. As an undo of admit it keeps the flow maximal: demand and payment fall by the
// same amount.
func (f *flow) reduce(d Dimensions, amount Amount) {
	if amount == 0 {
		return
	}
	n := f.byDimensions[d]
	unpaid := n.amount - n.paid
	n.amount -= amount
	f.refund(n)
	f.unpaid -= unpaid - (n.amount - n.paid)
	f.removeIfEmpty(n)
}

// release takes an amount from a demand for good, and pays unpaid demand from the freed supplies.
func (f *flow) release(d Dimensions, amount Amount) {
	f.reduce(d, amount)
	if f.unpaid == 0 {
		return
	}
	for _, n := range f.demands { // once is enough: no path opens by augmenting along another
		f.unpaid -= f.route(n, n.amount-n.paid)
	}
}

// available returns the largest amount that admit would add to a demand.
func (f *flow) available(d Dimensions) Amount {
	var all Amount
	for i := range f.supplies {
		all += f.supplies[i].capacity // the limit of the account, so it fits
	}
	available := f.admit(d, all)
	f.reduce(d, available)
	return available
}

// matching returns the sum of the matching supplies the dimensions.
func (f *flow) matching(d Dimensions) Amount {
	n := f.demandOf(d)
	defer f.removeIfEmpty(n)
	var matching Amount
	for _, s := range n.payers {
		matching += f.supplies[s].capacity
	}
	return matching
}

// refund gives payments beyond the demand back to the supplies.
func (f *flow) refund(n *demand) {
	for _, s := range n.payers {
		excess := n.paid - n.amount
		if excess <= 0 {
			return
		}
		back := min(excess, n.paidBy[s])
		n.paidBy[s] -= back
		n.paid -= back
		f.supplies[s].free += back
	}
}

// route pays for up to the given amount of additional demand. It returns the paid amount.
func (f *flow) route(n *demand, amount Amount) Amount {
	var routed Amount
	for routed < amount {
		end, found := f.search(n)
		if !found {
			break
		}
		routed += f.push(n, end, amount-routed)
	}
	return routed
}

// search looks for a shortest path from a demand to a supply with free capacity. Each demand on the path moves from one
// supply to the next. search returns the supply at the end.
func (f *flow) search(n *demand) (end int, found bool) {
	clear(f.seen)
	f.queue = f.queue[:0]
	if end, found = f.reach(n, -1); found {
		return end, true
	}
	for head := 0; head < len(f.queue); head++ {
		s := f.queue[head]
		for _, other := range f.demands {
			if other.paidBy[s] == 0 {
				continue
			}
			if end, found = f.reach(other, s); found {
				return end, true
			}
		}
	}
	return 0, false
}

// reach extends the search to the payers of a demand. It came to the demand from the supply before. It stops at the
// first payer with free capacity.
func (f *flow) reach(n *demand, before int) (end int, found bool) {
	for _, s := range n.payers {
		if f.seen[s] {
			continue
		}
		f.seen[s] = true
		f.via[s] = step{demand: n, before: before}
		if f.supplies[s].free > 0 {
			return s, true
		}
		f.queue = append(f.queue, s)
	}
	return 0, false
}

// push pays more of a demand along the path of search: as much as the path carries, and at most the given amount.
func (f *flow) push(n *demand, end int, amount Amount) Amount {
	amount = min(amount, f.supplies[end].free)
	for s := end; f.via[s].before >= 0; s = f.via[s].before {
		amount = min(amount, f.via[s].demand.paidBy[f.via[s].before])
	}
	f.supplies[end].free -= amount
	for s := end; s >= 0; s = f.via[s].before {
		f.via[s].demand.paidBy[s] += amount
		if before := f.via[s].before; before >= 0 {
			f.via[s].demand.paidBy[before] -= amount
		}
	}
	n.paid += amount
	return amount
}

// demandOf returns the demand of a dimension set, and creates it if necessary.
func (f *flow) demandOf(d Dimensions) *demand {
	if n := f.byDimensions[d]; n != nil {
		return n
	}
	n := &demand{dimensions: d, position: len(f.demands), paidBy: make([]Amount, len(f.supplies))}
	for s := range f.supplies {
		if matchesAll(f.supplies[s].requirements, d) {
			n.payers = append(n.payers, s)
		}
	}
	f.demands = append(f.demands, n)
	f.byDimensions[d] = n
	return n
}

func (f *flow) removeIfEmpty(n *demand) {
	if n.amount > 0 {
		return
	}
	last := len(f.demands) - 1
	f.demands[n.position] = f.demands[last]
	f.demands[n.position].position = n.position
	f.demands[last] = nil
	f.demands = f.demands[:last]
	delete(f.byDimensions, n.dimensions)
}
