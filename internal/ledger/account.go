package ledger

import (
	"maps"
	"slices"
)

// account is the part of the books on one resource type. The limit fits an Amount, and so do used
// and reserved together. A account without rows and mentions is not kept.
type account struct {
	// allowances are the sums of the amounts by selector, without zeros.
	allowances map[Selector]Amount
	// mentions counts the allowances of all grants, including those of amount 0.
	mentions int
	limit    Amount
	// selective is set if some allowance does not match everything. Only then is there a flow,
	// and it is nil until needed and after anything changed that it does not follow.
	selective bool
	flow      *flow

	rows           map[Dimensions]*balance
	rowBytes       int  // what a row takes in storage apart from its dimensions
	bytes          *int // what the rows of all pages of the ledger take
	used, reserved Amount
	claims         int64
	// pending is what the trial under way takes, and pendingRows how many rows it needs in
	// addition. Both are zero between trials.
	pending     Amount
	pendingRows int
}

// balance is the demand of one dimension set. Rows of zeros are not kept.
type balance struct {
	used, reserved Amount
	claims         int64 // the settled ones
}

func newAccount(resourceType string, bytes *int) *account {
	return &account{
		allowances: map[Selector]Amount{}, rows: map[Dimensions]*balance{},
		rowBytes: usageBytes + jsonLen(resourceType), bytes: bytes,
	}
}

// total returns what is used and reserved.
func (p *account) total() Amount { return p.used + p.reserved }

// headroom returns by how much the limit exceeds what is used and reserved.
func (p *account) headroom() Amount { return max(0, p.limit-p.total()) }

// admit returns how much of a charge can be paid in addition to everything that is paid,
// including the charges admitted before in this trial, and counts it as taken.
func (p *account) admit(d Dimensions, amount Amount) Amount {
	var admitted Amount
	if p.selective {
		admitted = p.network().admit(d, amount)
	} else {
		admitted = min(amount, p.headroom()-p.pending)
	}
	p.pending += admitted // no more than the limit
	return admitted
}

// revert undoes an admit and ends the trial for this page.
func (p *account) revert(d Dimensions, admitted Amount) {
	if p.selective {
		p.flow.withdraw(d, admitted)
	}
	p.endTrial()
}

// reserve enters a charge of which admit admitted a part, and ends the trial for this page.
func (p *account) reserve(d Dimensions, amount, admitted Amount) {
	if p.selective {
		p.flow.owe(d, amount-admitted)
	}
	p.balanceOf(d).reserved += amount
	p.reserved += amount
	p.endTrial()
}

func (p *account) endTrial() { p.pending, p.pendingRows = 0, 0 }

// needBalance counts the row of a charge of this trial. It reports false if there are too many.
func (p *account) needBalance(d Dimensions) bool {
	if p.rows[d] == nil {
		p.pendingRows++
	}
	return p.pendingRows == 0 || len(p.rows)+p.pendingRows <= RowsMax
}

// unreserve gives the charge of a reservation back.
func (p *account) unreserve(d Dimensions, amount Amount) {
	p.rows[d].reserved -= amount
	p.reserved -= amount
	p.gaveBack(d, amount)
}

// settle turns the charge of a reservation into usage. Demand stays the same.
func (p *account) settle(d Dimensions, amount Amount) {
	r := p.rows[d]
	r.reserved -= amount
	r.used += amount
	r.claims++
	p.reserved -= amount
	p.used += amount
	p.claims++
}

// holds reports whether a settled claim may have this charge.
func (p *account) holds(d Dimensions, amount Amount) bool {
	r := p.rows[d]
	return r != nil && r.used >= amount && r.claims > 0
}

// release gives the charge of a settled claim back.
func (p *account) release(d Dimensions, amount Amount) {
	r := p.rows[d]
	r.used -= amount
	r.claims--
	p.used -= amount
	p.claims--
	p.gaveBack(d, amount)
}

// gaveBack follows a demand that became smaller.
func (p *account) gaveBack(d Dimensions, amount Amount) {
	if p.flow != nil {
		p.flow.release(d, amount)
	}
	if *p.rows[d] == (balance{}) {
		p.dropBalance(d)
	}
}

// setUsed replaces what is used of a dimension set. It reports false if the sums would not fit.
func (p *account) setUsed(d Dimensions, amount Amount, claims int64) bool {
	var before balance
	if r := p.rows[d]; r != nil {
		before = *r
	}
	used, ok := (p.used - before.used).Add(amount)
	if !ok || used > AmountMax-p.reserved {
		return false
	}
	if p.claims-before.claims > CountMax-claims {
		return false
	}
	p.used, p.claims = used, p.claims-before.claims+claims
	after := balance{used: amount, reserved: before.reserved, claims: claims}
	if after == (balance{}) {
		p.dropBalance(d)
	} else {
		*p.balanceOf(d) = after
	}
	p.flow = nil
	return true
}

// grant adds the amount of an allowance. It reports false if the limit would not fit.
func (p *account) grant(s Selector, amount Amount) bool {
	limit, ok := p.limit.Add(amount)
	if !ok {
		return false
	}
	p.mentions++
	p.allow(s, p.allowances[s]+amount, limit)
	return true
}

// revoke takes the amount of an allowance away that grant added.
func (p *account) revoke(s Selector, amount Amount) {
	p.mentions--
	p.allow(s, p.allowances[s]-amount, p.limit-amount)
}

func (p *account) allow(s Selector, amount, limit Amount) {
	if amount == 0 {
		delete(p.allowances, s)
	} else {
		p.allowances[s] = amount
	}
	p.limit = limit
	p.selective = p.allowances[Selector{}] != limit
	p.flow = nil
}

// available returns the largest amount that admit would admit whole.
func (p *account) available(d Dimensions) Amount {
	if p.selective {
		return p.network().available(d)
	}
	return p.headroom()
}

// matching returns the sum of the allowances that match the dimensions.
func (p *account) matching(d Dimensions) Amount {
	if p.selective {
		return p.network().matching(d)
	}
	return p.limit
}

// network returns the flow of a selective page.
func (p *account) network() *flow {
	if p.flow == nil {
		p.flow = newFlow(p.allowances)
		for _, d := range p.dimensionSets() {
			demand := p.rows[d].used + p.rows[d].reserved
			p.flow.owe(d, demand-p.flow.admit(d, demand))
		}
	}
	return p.flow
}

// dimensionSets returns the keys of the rows in a fixed order.
func (p *account) dimensionSets() []Dimensions {
	return slices.SortedFunc(maps.Keys(p.rows), Dimensions.Compare)
}

// balanceOf returns the row of a dimension set, which may be new.
func (p *account) balanceOf(d Dimensions) *balance {
	r := p.rows[d]
	if r == nil {
		r = &balance{}
		p.rows[d] = r
		*p.bytes += p.sizeOfBalance(d)
	}
	return r
}

func (p *account) dropBalance(d Dimensions) {
	if p.rows[d] != nil {
		delete(p.rows, d)
		*p.bytes -= p.sizeOfBalance(d)
	}
}

// sizeOfBalance bounds from above what the row of a dimension set takes in storage.
func (p *account) sizeOfBalance(d Dimensions) int { return p.rowBytes + jsonLen(d.canonical) }
