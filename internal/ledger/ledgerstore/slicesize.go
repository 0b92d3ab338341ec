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

// share bounds a slice: it takes at most one part in ofLimit of the limit, and one part in ofRest of what is left.
type share struct{ ofLimit, ofRest ledger.Amount }

// defaultShare keeps the quota that a process may strand small, and slices out of the way of large requests.
var defaultShare = share{ofLimit: 100, ofRest: 8}

// trim returns the operation that adapts the slice to the demand when no other commit does, and so writes the ledger
// from time to time as long as there is a slice.
func (c *committer) trim() *operation {
	return &operation{
		patience: trimDelay,
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

// scheduleTrim makes sure that an operation to trim the slice waits as long as there is a slice.
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
	if s.IsDurable || s.isClosing.Load() || !c.isPreferred() || s.Replicas != nil && !s.Replicas.CanRead(formatOfSlices) {
		return share{}
	}
	return s.share
}

// replenish adapts the slice in the copy to the demand, before the copy is written. None of the ledger's slices may grow
// together beyond their part of the limit. writtenAt is the time by the API server's clock.
func (e *escrow) replenish(l *ledger.Ledger, holder string, most share, now, writtenAt time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slice, isHeld := l.Slice(holder)
	wanted := ledger.Slice{Holder: holder, WrittenAt: writtenAt.Unix(), IsRevoked: slice.IsRevoked, Amounts: map[string]ledger.Amount{}}
	if slice.IsRevoked {
		most = share{} // this process has stood still, and knows what it admitted before
	}
	for resourceType := range e.demand { // what is admitted was demanded
		e.wantLocked(l, holder, wanted.Amounts, resourceType, most, now)
	}
	if (isHeld || len(wanted.Amounts) > 0) && !l.SetSlice(wanted) { // there is no room for more
		for resourceType, amount := range wanted.Amounts {
			if wanted.Amounts[resourceType] = min(amount, slice.Amounts[resourceType]); wanted.Amounts[resourceType] == 0 {
				delete(wanted.Amounts, resourceType)
			}
		}
		l.RestoreSlice(wanted)
	}
	// Whether or not the write takes effect, this is covered: admissions of the batch are in the ledger if it does.
	for resourceType, amount := range e.covered {
		e.covered[resourceType] = min(amount, wanted.Amounts[resourceType]+e.recording[resourceType])
	}
}

// wantLocked adds the wanted amount of a resource type, if any.
func (e *escrow) wantLocked(l *ledger.Ledger, holder string, wanted amounts, resourceType string, share share, now time.Time) {
	rest, want := e.restLocked(resourceType), ledger.Amount(0)
	d := e.demand[resourceType]
	if isOver := d.decay(now); isOver && rest == 0 {
		delete(e.demand, resourceType)
		return
	}
	if share.ofLimit > 0 {
		held, _ := l.Slice(holder)
		others := l.Sliced(resourceType) - held.Amounts[resourceType]
		limit, available := l.Matching(resourceType, ledger.Dimensions{}), l.AvailableToSlice(holder, resourceType)
		most := min(limit/share.ofLimit-others, available/share.ofRest)
		if want = min(d.expected(held.Amounts[resourceType] > 0), most); want < d.largest {
			want = 0
		}
	}
	if want = max(want, rest); want > 0 {
		wanted[resourceType] = want
	}
}

// hasExcess reports whether the slice is larger than the demand now justifies.
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
		wanted := amounts{}
		if e.demand[resourceType] != nil {
			e.wantLocked(l, holder, wanted, resourceType, most, now)
		}
		if max(wanted[resourceType], e.restLocked(resourceType)) < amount/2 || len(wanted) == 0 {
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

// noteDemandLocked records charges that a slice could have paid for.
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

// expected returns the amount to hold for the time until the next commits: twice the recent demand, and at least two
// charges. One charge alone does not begin a slice: what is rare would cost a write to return it. A slice ends with the
// write that settles the latest charge.
func (d *demand) expected(isHeld bool) ledger.Amount {
	least := 1.2
	if isHeld {
		least = 0.25
	}
	if d.sum < least*float64(d.largest) {
		return 0
	}
	return ledger.Amount(2 * min(max(d.sum, float64(d.largest)), float64(ledger.AmountMax/4)))
}
