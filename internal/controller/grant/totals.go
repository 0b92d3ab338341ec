package grant

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Totals has the sums of the grants of all consumers, by resource type. Each consumer counts with at least the sums in
// its stored ledger: it takes room before a write of its ledger, and gives it back after a confirmed write with less.
// While the outcome of a write is unknown, the larger sum counts. So the consumers together never exceed a cap, in any
// order of writes of their ledgers.
//
// It also remembers the consumers waiting for room. A new leader starts a new order of waiting.
type Totals struct {
	mu      sync.Mutex
	counted map[quotav1alpha1.ConsumerRef]sums
	totals  map[string]*big.Int // the sums of counted by resource type; they may exceed an amount
	// selective has the stored allowances with a selector, and selected their sums.
	selective map[quotav1alpha1.ConsumerRef][]ledger.Allowance
	selected  map[string]map[ledger.Selector]*big.Int
	waiting   map[string]map[quotav1alpha1.ConsumerRef]waiter
	lastTurn  uint64
	// reported has the amounts beyond a cap by resource type, as last reported.
	reported map[string]ledger.Amount
}

// waiter is a consumer waiting for room of a resource type.
type waiter struct {
	// turn is its place in the order of waiting.
	turn uint64
	// sum is the later sum of the consumer with its smallest waiting grant.
	sum ledger.Amount
}

// want is the desired sum of a consumer for a resource type.
type want struct {
	resourceType string
	sum          ledger.Amount
	// maxTotal is the cap on the sums of all consumers. 0: none.
	maxTotal ledger.Amount
}

// NewTotals returns the Totals of no consumers.
func NewTotals() *Totals {
	return &Totals{
		counted: map[quotav1alpha1.ConsumerRef]sums{},
		totals:  map[string]*big.Int{},
		waiting: map[string]map[quotav1alpha1.ConsumerRef]waiter{},

		selective: map[quotav1alpha1.ConsumerRef][]ledger.Allowance{},
		selected:  map[string]map[ledger.Selector]*big.Int{},
		reported:  map[string]ledger.Amount{},
	}
}

// Total returns the sum of the allowances of all consumers for all claims of a resource type with some dimensions, or
// [ledger.AmountMax] if it is more. It is complete once [Stored] is.
func (t *Totals) Total(resourceType string, d ledger.Dimensions) ledger.Amount {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := t.othersLocked(quotav1alpha1.ConsumerRef{}, resourceType)
	for selector, sum := range t.selected[resourceType] {
		if !selector.Covers(d) {
			total.Sub(total, sum)
		}
	}
	return amountOf(total)
}

// keepSelective records the allowances with a selector in the stored ledger of a consumer.
func (t *Totals) keepSelective(consumer quotav1alpha1.ConsumerRef, stored []ledger.Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.selective[consumer] {
		t.addSelectedLocked(a, -int64(a.Amount))
	}
	delete(t.selective, consumer)
	for _, g := range stored {
		for _, a := range g.Allowances {
			if !a.Selector.MatchesEverything() {
				t.selective[consumer] = append(t.selective[consumer], a)
				t.addSelectedLocked(a, int64(a.Amount))
			}
		}
	}
}

func (t *Totals) addSelectedLocked(a ledger.Allowance, amount int64) {
	sums := t.selected[a.ResourceType]
	if sums == nil {
		sums = map[ledger.Selector]*big.Int{}
		t.selected[a.ResourceType] = sums
	}
	sum := sums[a.Selector]
	if sum == nil {
		sum = new(big.Int)
		sums[a.Selector] = sum
	}
	if sum.Add(sum, big.NewInt(amount)); sum.Sign() == 0 {
		delete(sums, a.Selector)
	}
	if len(sums) == 0 {
		delete(t.selected, a.ResourceType)
	}
}

// newExcess returns how much the grants of all consumers give beyond a cap, and whether it is more than last time. Then
// somebody lowered the cap, or a paused leader wrote late.
func (t *Totals) newExcess(resourceType string, maxTotal ledger.Amount) (excess ledger.Amount, isNew bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if total := amountOf(t.othersLocked(quotav1alpha1.ConsumerRef{}, resourceType)); maxTotal > 0 && total > maxTotal {
		excess = total - maxTotal
	}
	isNew = excess > t.reported[resourceType]
	if t.reported[resourceType] = excess; excess == 0 {
		delete(t.reported, resourceType)
	}
	return excess, isNew
}

// hold records these sums as possible in the ledger of a consumer. It gives nothing back, because the stored ledger may
// hold more.
func (t *Totals) hold(consumer quotav1alpha1.ConsumerRef, held sums) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for resourceType, sum := range held {
		t.raiseLocked(consumer, resourceType, sum)
	}
}

// noneShort is the index returned by take if it took the room.
const noneShort = -1

// take takes the room for all wants of a consumer, or for none. It returns the index of the first want without room.
// The consumer then waits for room.
func (t *Totals) take(consumer quotav1alpha1.ConsumerRef, wants []want) (short int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range wants {
		if !t.fitsLocked(consumer, w.resourceType, w.sum, w.maxTotal) {
			t.waitLocked(consumer, w.resourceType, w.sum)
			return i
		}
	}
	for _, w := range wants {
		t.raiseLocked(consumer, w.resourceType, w.sum)
	}
	return noneShort
}

// settle records the sums in a confirmed ledger, and by resource type the sums the consumer still waits to have. It
// returns the resource types with returned room.
func (t *Totals) settle(consumer quotav1alpha1.ConsumerRef, stored, waitsFor sums) (freed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for resourceType, before := range t.counted[consumer] {
		if stored[resourceType] < before {
			freed = append(freed, resourceType)
		}
	}
	for _, resourceType := range freed {
		t.setLocked(consumer, resourceType, stored[resourceType])
	}
	for resourceType, sum := range stored {
		t.setLocked(consumer, resourceType, sum)
	}
	for resourceType, waiters := range t.waiting {
		former, isWaiting := waiters[consumer]
		sum, stays := waitsFor[resourceType]
		switch {
		case isWaiting && stays:
			waiters[consumer] = waiter{former.turn, sum}
		case isWaiting:
			if delete(waiters, consumer); len(waiters) == 0 {
				delete(t.waiting, resourceType)
			}
		}
	}
	slices.Sort(freed)
	return freed
}

// fitting returns the waiting consumers with a grant that fits under a cap, by the length of their wait, the longest
// first. Each fits alone; they may not fit together.
func (t *Totals) fitting(resourceType string, maxTotal ledger.Amount) []quotav1alpha1.ConsumerRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiters := maps.Clone(t.waiting[resourceType])
	maps.DeleteFunc(waiters, func(consumer quotav1alpha1.ConsumerRef, w waiter) bool {
		return !t.fitsLocked(consumer, resourceType, w.sum, maxTotal)
	})
	return inTurn(waiters)
}

// waiters returns all waiting consumers by the length of their wait, the longest first.
func (t *Totals) waiters() []quotav1alpha1.ConsumerRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[quotav1alpha1.ConsumerRef]waiter{}
	for _, waiters := range t.waiting {
		for consumer, w := range waiters {
			if other, ok := all[consumer]; !ok || w.turn < other.turn {
				all[consumer] = w
			}
		}
	}
	return inTurn(all)
}

func inTurn(waiters map[quotav1alpha1.ConsumerRef]waiter) []quotav1alpha1.ConsumerRef {
	return slices.SortedFunc(maps.Keys(waiters), func(a, b quotav1alpha1.ConsumerRef) int { return cmp.Compare(waiters[a].turn, waiters[b].turn) })
}

// fitsLocked reports whether a consumer may have a sum under a cap on all consumers.
func (t *Totals) fitsLocked(consumer quotav1alpha1.ConsumerRef, resourceType string, sum, maxTotal ledger.Amount) bool {
	if maxTotal == 0 {
		return true
	}
	all := t.othersLocked(consumer, resourceType)
	return all.Add(all, big.NewInt(int64(sum))).Cmp(big.NewInt(int64(maxTotal))) <= 0
}

// othersLocked returns the sum of a resource type over all consumers but one.
func (t *Totals) othersLocked(consumer quotav1alpha1.ConsumerRef, resourceType string) *big.Int {
	others := new(big.Int)
	if total := t.totals[resourceType]; total != nil {
		others.Sub(total, big.NewInt(int64(t.counted[consumer][resourceType])))
	}
	return others
}

func (t *Totals) waitLocked(consumer quotav1alpha1.ConsumerRef, resourceType string, sum ledger.Amount) {
	waiters := t.waiting[resourceType]
	if waiters == nil {
		waiters = map[quotav1alpha1.ConsumerRef]waiter{}
		t.waiting[resourceType] = waiters
	}
	if w, ok := waiters[consumer]; ok {
		waiters[consumer] = waiter{w.turn, min(w.sum, sum)}
		return
	}
	t.lastTurn++
	waiters[consumer] = waiter{t.lastTurn, sum}
}

// raiseLocked counts a consumer with at least a sum.
func (t *Totals) raiseLocked(consumer quotav1alpha1.ConsumerRef, resourceType string, sum ledger.Amount) {
	t.setLocked(consumer, resourceType, max(sum, t.counted[consumer][resourceType]))
}

// setLocked counts a consumer with a sum. It forgets sums of 0.
func (t *Totals) setLocked(consumer quotav1alpha1.ConsumerRef, resourceType string, sum ledger.Amount) {
	own := t.counted[consumer]
	total := t.totals[resourceType]
	if total == nil {
		total = new(big.Int)
		t.totals[resourceType] = total
	}
	total.Add(total, big.NewInt(int64(sum)))
	total.Sub(total, big.NewInt(int64(own[resourceType])))
	if total.Sign() == 0 {
		delete(t.totals, resourceType)
	}
	switch {
	case sum > 0 && own == nil:
		t.counted[consumer] = sums{resourceType: sum}
	case sum > 0:
		own[resourceType] = sum
	default:
		if delete(own, resourceType); len(own) == 0 {
			delete(t.counted, consumer)
		}
	}
}

// amountOf returns a sum as an amount, at most [ledger.AmountMax].
func amountOf(sum *big.Int) ledger.Amount {
	if !sum.IsInt64() {
		return ledger.AmountMax
	}
	return ledger.Amount(sum.Int64())
}

// sums are amounts by resource type.
type sums map[string]ledger.Amount

// sumsOf returns the sums of grants over all dimensions.
func sumsOf(grants ...ledger.Grant) sums {
	all := sums{}
	for _, g := range grants {
		for _, a := range g.Allowances {
			all[a.ResourceType] = all[a.ResourceType].AddUpTo(a.Amount)
		}
	}
	return all
}
