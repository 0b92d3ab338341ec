package ledgerstore

import (
	"math"
	"time"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// trimDelay is how long a slice stays as it is without another commit.
	trimDelay = 4 * time.Second
	// demandWindow is the time constant of the average demand.
	demandWindow = 2 * time.Second
)

// share bounds a slice: it takes at most one part in ofLimit of the limit, and one part in ofRest of the remaining
// quota.
type share struct{ ofLimit, ofRest ledger.Amount }

// defaultShare keeps the quota stranded by a dead process small, and slices out of the way of large requests.
var defaultShare = share{ofLimit: 100, ofRest: 8}

// trim returns the operation to adapt the slice to the demand when no other commit does. So it writes the ledger from
// time to time as long as there is a slice.
func (c *committer) trim() *operation {
	return &operation{
		maxDelay: trimDelay,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			_, isHeld := l.Slice(c.store.holder)
			if isHeld && (c.escrow.hasExcess(l, c.store.holder, c.share(), time.Now()) || time.Since(c.lastWrite()) > sliceLease/2) {
				return groupcommit.Changed // by replenish
			}
			return groupcommit.Nothing
		},
		committed: func() { c.escrow.endTrim() },
	}
}

// scheduleTrim keeps an operation to trim the slice waiting as long as there is a slice.
func (c *committer) scheduleTrim() {
	if c.ledger == nil {
		return
	}
	if _, isHeld := c.ledger.Slice(c.store.holder); isHeld && c.escrow.beginTrim() {
		c.commitLater(c.trim())
	}
}

// beginTrim reports whether no operation to trim the slice waits yet.
func (e *escrow) beginTrim() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	isFirst := !e.isTrimming
	e.isTrimming = true
	return isFirst
}

func (e *escrow) endTrim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isTrimming = false
}

// share returns the bounds on the slice of this process. They are zero if it may not have one.
func (c *committer) share() share {
	s := c.store
	if s.IsDurable || s.isClosing.Load() || c.stock.err != nil || !c.isPreferred() || s.Replicas != nil && !s.Replicas.CanRead(formatOfSlices) {
		return share{}
	}
	return s.share
}

// replenish adapts the slice in the copy to the demand, before the write of the copy. None of the ledger's slices may
// grow together beyond their part of the limit. writtenAt is the time by the API server's clock.
func (e *escrow) replenish(l *ledger.Ledger, holder string, most share, now, writtenAt time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slice, isHeld := l.Slice(holder)
	wanted := ledger.Slice{Holder: holder, WrittenAt: writtenAt.Unix(), IsRevoked: slice.IsRevoked, Amounts: map[string]ledger.Amount{}}
	if slice.IsRevoked {
		most = share{} // this process has stood still, and knows its earlier admissions
	}
	for resourceType := range e.demand { // all admissions are among the demand
		if want := e.wantLocked(l, holder, resourceType, most, now); want > 0 {
			wanted.Amounts[resourceType] = want
		}
	}
	if (isHeld || len(wanted.Amounts) > 0) && !l.SetSlice(wanted) { // there is no room for more
		for resourceType, amount := range wanted.Amounts {
			if wanted.Amounts[resourceType] = min(amount, slice.Amounts[resourceType]); wanted.Amounts[resourceType] == 0 {
				delete(wanted.Amounts, resourceType)
			}
		}
		l.ShrinkSlice(wanted)
	}
	// With or without effect of the write, the slice covers this: if it takes effect, the ledger has the admissions of
	// the batch.
	for resourceType, amount := range e.covered {
		e.covered[resourceType] = min(amount, wanted.Amounts[resourceType]+e.recording[resourceType])
	}
}

// wantLocked returns the desired amount of a resource type in the slice.
func (e *escrow) wantLocked(l *ledger.Ledger, holder, resourceType string, share share, now time.Time) ledger.Amount {
	rest, d := e.restLocked(resourceType), e.demand[resourceType]
	switch {
	case d == nil:
		return 0 // there are no admissions either
	case d.decay(now) && rest == 0:
		delete(e.demand, resourceType)
		return 0
	case share.ofLimit == 0:
		return rest
	}
	slice, _ := l.Slice(holder)
	held := slice.Amounts[resourceType]
	limit, available := l.Matching(resourceType, ledger.Dimensions{}), l.AvailableToSlice(holder, resourceType)
	most := min(limit/share.ofLimit-(l.Sliced(resourceType)-held), available/share.ofRest)
	want := min(d.expected(held > 0), most)
	if want < d.largest {
		return rest
	}
	return max(want, rest)
}

// hasExcess reports whether the slice is more than twice as large as the demand now justifies.
func (e *escrow) hasExcess(l *ledger.Ledger, holder string, most share, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	slice, ok := l.Slice(holder)
	if !ok {
		return false
	}
	if slice.IsRevoked {
		most = share{}
	}
	for resourceType, amount := range slice.Amounts {
		if e.wantLocked(l, holder, resourceType, most, now) < (amount+1)/2 {
			return true
		}
	}
	return false
}

// demand is the recent demand for a resource type.
type demand struct {
	// sum decreases exponentially with time. It is about the demand in the latest demandWindow.
	sum     float64
	at      time.Time
	largest ledger.Amount
}

// noteDemandLocked records charges payable from a slice.
func (e *escrow) noteDemandLocked(charges []ledger.Charge, now time.Time) {
	for i := range charges {
		charge := &charges[i]
		d := e.demand[charge.ResourceType]
		if d == nil {
			if e.demand == nil {
				e.demand = map[string]*demand{}
			}
			d = &demand{at: now}
			e.demand[charge.ResourceType] = d
		}
		d.decay(now)
		d.sum += float64(charge.Amount)
		d.largest = max(d.largest, charge.Amount)
	}
}

// decay brings the demand up to date, and reports whether it is over.
func (d *demand) decay(now time.Time) (isOver bool) {
	d.sum *= math.Exp(-max(0, now.Sub(d.at).Seconds()) / demandWindow.Seconds())
	d.at = now
	return d.sum < float64(d.largest)/8
}

// Demand begins a slice from more than one charge on: a single one would cost a write to return the slice. It keeps a
// slice until it has decreased to a quarter of a charge.
const (
	beginsSlice = 1.2
	keepsSlice  = 0.25
)

// expected returns the amount to hold for the time until the next commits: twice the recent demand, and at least two
// charges. isHeld tells whether there is a slice.
func (d *demand) expected(isHeld bool) ledger.Amount {
	least := beginsSlice
	if isHeld {
		least = keepsSlice
	}
	if d.sum < least*float64(d.largest) {
		return 0
	}
	return ledger.Amount(2 * min(max(d.sum, float64(d.largest)), float64(ledger.AmountMax/4)))
}
