package ledger

import (
	"maps"
	"slices"
)

// account is the part of a ledger for one resource type. The limit fits an Amount. So do used, reserved and sliced
// together. A ledger keeps no account without balances and allowances.
type account struct {
	// allowances are the sums of the amounts by selector, without zeros.
	allowances map[Selector]Amount
	// allowanceCount counts the allowances of all grants, including those of amount 0.
	allowanceCount int
	limit          Amount
	// selective is set if some allowance does not match everything. Only then is there a flow. The flow is nil until a
	// decision needs it, and again after a change of allowances or a correction of usage.
	selective bool
	flow      *flow

	balances       map[Dimensions]*balance
	balanceBytes   int  // bytes of a stored balance without its dimensions
	bytes          *int // bytes of the balances of all accounts of the ledger
	used, reserved Amount
	sliced         Amount // in slices, see [Slice]
	claims         int64
	// pending is the amount taken by the current transaction, and pendingBalances the number of balances added by it.
	// Both are zero between transactions.
	pending         Amount
	pendingBalances int
}

// balance is the demand of one dimension set. An account keeps no zero balances.
type balance struct {
	used, reserved Amount
	sliced         Amount // only without dimensions
	claims         int64  // settled claims
}

// demand returns the amount for the allowances to pay.
func (b *balance) demand() Amount { return b.used + b.reserved + b.sliced }

func newAccount(resourceType string, bytes *int) *account {
	return &account{
		allowances: map[Selector]Amount{}, balances: map[Dimensions]*balance{},
		balanceBytes: usageBytes + jsonLen(resourceType), bytes: bytes,
	}
}

// total returns the sum of used, reserved and sliced amounts.
func (a *account) total() Amount { return a.used + a.reserved + a.sliced }

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
	a.balanceOf(d).reserved += amount
	a.reserved += amount
	a.endTransaction()
}

func (a *account) endTransaction() { a.pending, a.pendingBalances = 0, 0 }

// needBalance counts the new balance of a charge in this transaction. It returns false if there are too many.
func (a *account) needBalance(d Dimensions) bool {
	if a.balances[d] == nil {
		a.pendingBalances++
	}
	return a.pendingBalances == 0 || len(a.balances)+a.pendingBalances <= BalancesMax
}

// cancel gives back the charge of a reservation.
func (a *account) cancel(d Dimensions, amount Amount) {
	a.balances[d].reserved -= amount
	a.reserved -= amount
	a.reduceDemand(d, amount)
}

// settle turns the charge of a reservation into usage. Demand stays the same.
func (a *account) settle(d Dimensions, amount Amount) {
	b := a.balances[d]
	b.reserved -= amount
	b.used += amount
	b.claims++
	a.reserved -= amount
	a.used += amount
	a.claims++
}

// holds reports whether a settled claim may have this charge.
func (a *account) holds(d Dimensions, amount Amount) bool {
	b := a.balances[d]
	return b != nil && b.used >= amount && b.claims > 0
}

// release gives back the charge of a settled claim.
func (a *account) release(d Dimensions, amount Amount) {
	b := a.balances[d]
	b.used -= amount
	b.claims--
	a.used -= amount
	a.claims--
	a.reduceDemand(d, amount)
}

// reduceDemand updates the flow after a balance became smaller, and removes a zero balance.
func (a *account) reduceDemand(d Dimensions, amount Amount) {
	if a.flow != nil {
		a.flow.release(d, amount)
	}
	if *a.balances[d] == (balance{}) {
		a.removeBalance(d)
	}
}

// setUsed replaces the usage of a dimension set. It returns false if the sums would not fit.
func (a *account) setUsed(d Dimensions, amount Amount, claims int64) bool {
	var before balance
	if b := a.balances[d]; b != nil {
		before = *b
	}
	used, ok := (a.used - before.used).Add(amount)
	if !ok || used > AmountMax-a.reserved-a.sliced {
		return false
	}
	if a.claims-before.claims > CountMax-claims {
		return false
	}
	a.used, a.claims = used, a.claims-before.claims+claims
	after := balance{used: amount, reserved: before.reserved, sliced: before.sliced, claims: claims}
	if after == (balance{}) {
		a.removeBalance(d)
	} else {
		*a.balanceOf(d) = after
	}
	a.flow = nil
	return true
}

// addAllowance adds the amount of an allowance. It returns false if the limit would not fit.
func (a *account) addAllowance(s Selector, amount Amount) bool {
	limit, ok := a.limit.Add(amount)
	if !ok {
		return false
	}
	a.allowanceCount++
	a.setAllowance(s, a.allowances[s]+amount, limit)
	return true
}

// removeAllowance undoes addAllowance.
func (a *account) removeAllowance(s Selector, amount Amount) {
	a.allowanceCount--
	a.setAllowance(s, a.allowances[s]-amount, a.limit-amount)
}

func (a *account) setAllowance(s Selector, amount, limit Amount) {
	if amount == 0 {
		delete(a.allowances, s)
	} else {
		a.allowances[s] = amount
	}
	a.limit = limit
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

// balanceOf returns the balance of a dimension set, and creates it if necessary.
func (a *account) balanceOf(d Dimensions) *balance {
	b := a.balances[d]
	if b == nil {
		b = &balance{}
		a.balances[d] = b
		*a.bytes += a.balanceSize(d)
	}
	return b
}

func (a *account) removeBalance(d Dimensions) {
	if a.balances[d] != nil {
		delete(a.balances, d)
		*a.bytes -= a.balanceSize(d)
	}
}

// balanceSize bounds from above the bytes of a stored balance.
func (a *account) balanceSize(d Dimensions) int { return a.balanceBytes + jsonLen(d.canonical) }
