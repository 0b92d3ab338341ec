package ledger

import (
	"maps"
	"slices"
)

// account is the part of a ledger for one resource type. The limit fits an Amount, and so does all demand together. A
// ledger keeps no account without balances and allowances.
type account struct {
	// allowances are the sums of the amounts by selector, without zeros.
	allowances map[Selector]Amount
	// allowanceCount counts the allowances of all grants, including those of amount 0.
	allowanceCount int
	limit          Amount
	// selective is set if some allowance does not match everything. Only then is there a flow. The flow is nil until a
	// decision needs it, and again after a change of allowances.
	selective bool
	flow      *flow

	balances  map[Dimensions]balance
	typeBytes int // of the resource type in stored demand
	ledger    *Ledger
	observed  Amount // see [Observation]
	reserved  Amount
	sliced    Amount // in slices, see [Slice]
	objects   int64
	// pending is the amount taken by the current transaction, and pendingBalances the number of balances added by it.
	// Both are zero between transactions.
	pending         Amount
	pendingBalances int
}

// balance is the demand of one dimension set. An account keeps no zero balances.
type balance struct {
	observed, reserved Amount
	sliced             Amount // only without dimensions
	objects            int64  // observed ones, also without demand
}

// demand returns the amount for the allowances to pay.
func (b balance) demand() Amount { return b.observed + b.reserved + b.sliced }

func newAccount(resourceType string, l *Ledger) *account {
	return &account{
		allowances: map[Selector]Amount{}, balances: map[Dimensions]balance{},
		typeBytes: jsonLen(resourceType), ledger: l,
	}
}

// total returns the sum of observed, reserved and sliced amounts.
func (a *account) total() Amount { return a.observed + a.reserved + a.sliced }

// headroom returns the limit minus the total, and at least 0.
func (a *account) headroom() Amount { return max(0, a.limit-a.total()) }

// admit takes as much of a charge as the allowances can pay in addition to the charges already paid or admitted in this
// transaction. It returns the amount.
func (a *account) admit(d Dimensions, amount Amount) Amount {
	var admitted Amount
	if a.selective {
		admitted = a.maxFlow().admit(d, amount)
	} else {
		admitted = min(amount, a.headroom()-a.pending)
	}
	a.pending += admitted // no more than the limit
	return admitted
}

// rollback undoes admit and ends the transaction for this account.
func (a *account) rollback(d Dimensions, admitted Amount) {
	if a.selective {
		a.flow.reduce(d, admitted)
	}
	a.endTransaction()
}

// reserve adds a charge to its balance and ends the transaction for this account. The part beyond admitted is
// overdraft.
func (a *account) reserve(d Dimensions, amount, admitted Amount) {
	if a.selective {
		a.flow.addUnpaid(d, amount-admitted)
	}
	after := a.balances[d]
	after.reserved += amount
	a.setBalance(d, after)
	a.endTransaction()
}

func (a *account) endTransaction() { a.pending, a.pendingBalances = 0, 0 }

// needBalance counts the new balance of a charge in this transaction. It returns false if there are too many.
func (a *account) needBalance(d Dimensions) bool {
	if !a.hasBalance(d) {
		a.pendingBalances++
	}
	return a.pendingBalances == 0 || len(a.balances)+a.pendingBalances <= BalancesMax
}

// cancel gives back the charge of a reservation.
func (a *account) cancel(d Dimensions, amount Amount) {
	after := a.balances[d]
	after.reserved -= amount
	a.changeBalance(d, after)
}

// fits reports whether a balance has a place, and the sums of the account with it are within their bounds.
func (a *account) fits(d Dimensions, after balance) bool {
	before := a.balances[d]
	if !a.hasBalance(d) && len(a.balances) >= BalancesMax && after != (balance{}) {
		return false
	}
	total := a.total() - before.demand()
	for _, part := range []Amount{after.observed, after.reserved, after.sliced} {
		var ok bool
		if total, ok = total.Add(part); !ok {
			return false
		}
	}
	return a.objects-before.objects <= CountMax-after.objects
}

// changeBalance replaces a balance, regardless of limits, and pays for its demand as far as the allowances can.
func (a *account) changeBalance(d Dimensions, after balance) {
	more := after.demand() - a.balances[d].demand()
	a.setBalance(d, after)
	switch {
	case a.flow == nil:
	case more > 0:
		a.flow.addUnpaid(d, more-a.flow.admit(d, more))
	case more < 0:
		a.flow.release(d, -more)
	}
}

// setBalance replaces a balance, apart from the flow. A zero one is removed.
func (a *account) setBalance(d Dimensions, after balance) {
	before := a.balances[d]
	if log := &a.ledger.log; log.isOpen() {
		log.add(func() { a.changeBalance(d, before) })
	}

	a.observed += after.observed - before.observed
	a.reserved += after.reserved - before.reserved
	a.sliced += after.sliced - before.sliced
	a.objects += after.objects - before.objects

	if after == (balance{}) {
		delete(a.balances, d)
	} else {
		a.balances[d] = after
	}
	a.ledger.bytes.balances += a.roomFor(d, after) - a.roomFor(d, before)
}

// roomFor returns the bytes for the demand that a balance without objects will become once its object is observed.
func (a *account) roomFor(d Dimensions, b balance) int {
	if b == (balance{}) || b.objects > 0 {
		return 0
	}
	return a.demandSize(d)
}

func (a *account) hasBalance(d Dimensions) bool {
	_, isThere := a.balances[d]
	return isThere
}

// addAllowance adds the amount of an allowance. It returns false if the limit would not fit.
func (a *account) addAllowance(s Selector, amount Amount) bool {
	limit, ok := a.limit.Add(amount)
	if !ok {
		return false
	}
	a.setAllowance(s, a.allowances[s]+amount, limit, a.allowanceCount+1)
	return true
}

// removeAllowance undoes addAllowance.
func (a *account) removeAllowance(s Selector, amount Amount) {
	a.setAllowance(s, a.allowances[s]-amount, a.limit-amount, a.allowanceCount-1)
}

// setAllowance replaces the sum of the allowances with a selector, and with it the limit and the number of allowances.
func (a *account) setAllowance(s Selector, amount, limit Amount, count int) {
	if log := &a.ledger.log; log.isOpen() {
		amountBefore, limitBefore, countBefore := a.allowances[s], a.limit, a.allowanceCount
		log.add(func() { a.setAllowance(s, amountBefore, limitBefore, countBefore) })
	}

	if amount == 0 {
		delete(a.allowances, s)
	} else {
		a.allowances[s] = amount
	}
	a.limit, a.allowanceCount = limit, count
	a.selective = a.allowances[Selector{}] != limit
	a.flow = nil
}

// available returns the largest amount that admit would admit whole.
func (a *account) available(d Dimensions) Amount {
	if a.selective {
		return a.maxFlow().available(d)
	}
	return a.headroom()
}

// matching returns the sum of the allowances for the dimensions.
func (a *account) matching(d Dimensions) Amount {
	if a.selective {
		return a.maxFlow().matching(d)
	}
	return a.limit
}

// maxFlow returns the flow of a selective account.
func (a *account) maxFlow() *flow {
	if a.flow == nil {
		a.flow = newFlow(a.allowances)
		for _, d := range a.dimensionSets() {
			demand := a.balances[d].demand()
			a.flow.addUnpaid(d, demand-a.flow.admit(d, demand))
		}
	}
	return a.flow
}

// dimensionSets returns the keys of the balances in a fixed order.
func (a *account) dimensionSets() []Dimensions {
	return slices.SortedFunc(maps.Keys(a.balances), Dimensions.Compare)
}

// demandSize bounds from above the bytes of stored demand with some dimensions.
func (a *account) demandSize(d Dimensions) int {
	return demandBytes + a.typeBytes + jsonLen(d.canonical)
}
