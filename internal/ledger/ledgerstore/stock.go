package ledgerstore

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// transferDelay is how long the copy may have observed an object that the stored ledger still counts as its request.
// Usage is the same either way, so this waits for another reason to write. With [recordDelayMax] it is less than
// [overlookedAfter].
const transferDelay = 3 * time.Second

// stock is what a committer knows of the inventory. All but changes and isScheduled belongs to the goroutine of the
// group.
type stock struct {
	// changes counts the changes of the inventory that matter to the ledger, and isScheduled is set while an operation
	// waits to observe them.
	changes     atomic.Int64
	isScheduled atomic.Bool

	// taken is the number of changes before the latest observation.
	taken int64
	// isAhead is true while the copy has observed something that storage does not have, and since is the beginning of
	// that. changesUsage is true if usage is another one now, freesQuota if that frees quota, and ended are the keys of
	// the requests that ended.
	isAhead, changesUsage, freesQuota bool
	since                             time.Time
	ended                             []string
	// isTransferring is set while an operation waits to store an observation that leaves usage as it is.
	isTransferring bool
	// seen is what the inventory shows of the admissions from the slice, as of the latest observation. The others wait for
	// a later one.
	seen map[string]ledger.Visibility
	// named are the keys of admissions from the slice whose objects the copy has observed first, and recorded by name.
	named sets.Set[string]
	// outdated are the kinds that count wrongly until the inventory rests on later policies or namespaces. Either the
	// ledger has observed by such ones, and not what has changed since, or an object counts beside its request.
	outdated []string
	// err is why the ledger cannot have what exists. Then it admits nothing.
	err error
}

// reset forgets everything about the former copy.
func (s *stock) reset() {
	s.taken, s.seen, s.err = -1, nil, nil
	s.named = sets.New[string]()
	s.forgetNews()
}

// noteNews notes that the copy has observed something that storage does not have.
func (s *stock) noteNews(changesUsage, freesQuota bool) {
	if !s.isAhead {
		s.since = time.Now()
	}
	s.isAhead = true
	s.changesUsage = s.changesUsage || changesUsage
	s.freesQuota = s.freesQuota || freesQuota
}

// forgetNews notes that storage has everything observed, or that the copy with it is gone.
func (s *stock) forgetNews() {
	s.isAhead, s.changesUsage, s.freesQuota, s.ended = false, false, false, nil
}

// takeStock brings the copy up to the inventory. The next write stores that.
func (c *committer) takeStock() {
	inventory := c.store.Inventory
	changes := c.stock.changes.Load()
	hasNews := changes != c.stock.taken
	c.stock.taken = changes // also if nothing can be observed: another look would change nothing
	if inventory == nil || c.store.Replicas != nil && !c.store.Replicas.CanRead(formatOfObservations) {
		return
	}
	c.stock.outdated, c.stock.err, c.stock.seen = nil, nil, map[string]ledger.Visibility{}

	// A kind may be retired because another one is listed now. Then the latter is among the kinds below.
	retired, waiting := c.retired()
	unrecorded := c.store.inflight.unrecorded(c.consumer)
	for _, kind := range inventory.Kinds() {
		inventory.View(kind, c.consumer, func(o ledger.Observation, by ledger.Observer) {
			if stored := c.ledger.Observation(kind); hasNews || stored.Basis != o.Basis || c.awaits(kind) {
				c.observeKind(o, stored, &knowing{Observer: by, committer: c, basis: o.Basis, unrecorded: unrecorded})
			}
			c.see(o, by, unrecorded)
		})
	}
	c.escrow.suspend(c.stock.err != nil)
	c.forgetRetired(retired, waiting)
	for _, key := range c.stock.ended {
		c.store.inflight.removeRecorded(c.consumer, key)
	}
}

// suspend stops admissions from the slice, or resumes them.
func (e *escrow) suspend(isSuspended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isSuspended = isSuspended
}

// retired returns the observed kinds that nothing counts any more, and the requests that wait for objects of such
// kinds.
func (c *committer) retired() (kinds []string, waiting []ledger.Reservation) {
	isRetired := func(kind string, observed ledger.Basis) bool {
		return !c.store.Inventory.IsListed(kind) && c.store.Inventory.IsRetired(kind, observed)
	}
	for o := range c.ledger.Observations() {
		if isRetired(o.Kind, o.Basis) {
			kinds = append(kinds, o.Kind)
		}
	}
	for r := range c.ledger.Reservations() {
		if r.Awaits != nil && isRetired(r.Awaits.Kind, ledger.Basis{Policies: r.Awaits.Policies}) {
			waiting = append(waiting, r)
		}
	}
	return kinds, waiting
}

// forgetRetired forgets the observations of retired kinds, and ends the requests that wait for their objects.
func (c *committer) forgetRetired(kinds []string, waiting []ledger.Reservation) {
	for _, kind := range kinds {
		if !c.store.Inventory.IsListed(kind) && c.ledger.ForgetKind(kind) {
			c.stock.noteNews(true, true)
		}
	}
	for i := range waiting {
		r := &waiting[i]
		if !c.store.Inventory.IsListed(r.Awaits.Kind) && c.ledger.Cancel(r.Key, r.Sequence) {
			c.stock.ended = append(c.stock.ended, r.Key)
			c.stock.noteNews(true, true)
		}
	}
}

// observeKind brings the copy up to what the objects of one kind demand now.
func (c *committer) observeKind(o, stored ledger.Observation, by *knowing) {
	if stored.Kind == "" && len(o.Demands) == 0 && !c.awaits(o.Kind) {
		return
	}
	uptake, err := c.ledger.Observe(o, by)
	if err != nil {
		c.stock.err = err
		return
	}

	c.stock.named.Insert(by.named...)
	if uptake.HasChanged {
		c.stock.noteNews(uptake.ChangesUsage, uptake.FreesQuota)
	}
	c.stock.ended = append(c.stock.ended, uptake.Ended...)
	if uptake.IsBehind && !stored.Basis.Covers(o.Basis) || uptake.CountsTwice {
		c.stock.outdated = append(c.stock.outdated, o.Kind)
		c.store.Inventory.Refresh()
	}
}

// awaits reports whether a pending request waits for an object of a kind.
func (c *committer) awaits(kind string) bool {
	for r := range c.ledger.Reservations() {
		if r.Awaits != nil && r.Awaits.Kind == kind {
			return true
		}
	}
	return false
}

// see notes what the inventory shows of admissions from the slice. It leaves them out unless inventory and ledger rest
// on the same: otherwise the ledger may have observed an object that this process has yet to see.
func (c *committer) see(o ledger.Observation, by ledger.Observer, unrecorded []ledger.Reservation) {
	if stored := c.ledger.Observation(o.Kind); stored.Kind != "" && stored.Basis != o.Basis {
		return
	}
	for i := range unrecorded {
		if r := &unrecorded[i]; r.Awaits != nil && r.Awaits.Kind == o.Kind {
			c.stock.seen[r.Key] = by.Visibility(r)
		}
	}
}

// hasSeen reports whether the inventory is as recent as the ledger for an admission from the slice.
func (c *committer) hasSeen(r *ledger.Reservation) bool {
	_, has := c.stock.seen[r.Key]
	return has || c.ledger.Observation(r.Awaits.Kind).Kind == ""
}

// recordAwaiting moves a request, admitted from the slice, to the ledger. It reports whether the request has ended:
// then the ledger need not have it.
func (c *committer) recordAwaiting(l *ledger.Ledger, r ledger.Reservation) (effect groupcommit.Effect, isOver bool) {
	keep := c.escrow.unrecordedBeside(r.Charges)
	switch {
	case !c.store.inflight.isUnrecorded(c.consumer, r.Key): // somebody else has recorded it, and it has ended
		c.escrow.noteRecorded(r.Charges)
		return groupcommit.Nothing, true
	case !c.hasSeen(&r):
		return groupcommit.Nothing, false // the slice covers it until then
	case l.EndInSlice(c.store.holder, &r, sighting(c.stock.seen[r.Key]), keep):
		isOver = true
		c.name(l, &r)
	case l.ReserveInSlice(c.store.holder, r, keep).Code != ledger.Admitted:
		return groupcommit.Nothing, false
	}
	c.escrow.noteRecorded(r.Charges)
	return groupcommit.Changed, isOver
}

// sighting is an observer that knows one request.
type sighting ledger.Visibility

// Visibility implements [ledger.Observer].
func (s sighting) Visibility(*ledger.Reservation) ledger.Visibility { return ledger.Visibility(s) }

// ChangesSince implements [ledger.Observer].
func (s sighting) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) { return nil, false }

// newObservation returns the operation to store what the copy has observed, unless that can wait.
func newObservation() *operation {
	var isOutdated bool
	op := &operation{makesRoom: true, growsCapacity: true}
	op.apply = func(*ledger.Ledger, bool) groupcommit.Effect {
		stock := &op.committer.stock
		stock.isScheduled.Store(false)
		isOutdated = stock.changes.Load() != stock.taken
		if op.committer.mustStoreStock() {
			return groupcommit.Changed
		}
		return groupcommit.Nothing
	}
	op.committed = func() {
		if isOutdated {
			op.committer.observeSoon()
		}
	}
	return op
}

// mustStoreStock reports whether storage has to have what the copy has observed. Then it also ends the wait of others
// for a request that has ended.
func (c *committer) mustStoreStock() bool {
	switch {
	case !c.stock.isAhead:
		return false
	case c.stock.changesUsage, c.store.isClosing.Load(), c.expectsReleases():
		return true
	default:
		return time.Since(c.stock.since) >= transferDelay
	}
}

// observeSoon observes the inventory with the next commit, or soon. It returns false after the end of the committer.
func (c *committer) observeSoon() bool {
	if c.stock.isScheduled.Swap(true) {
		return true
	}
	op := newObservation()
	op.maxDelay = c.recordDelay(time.Now())
	isCommitting := c.commitLater(op)
	if !isCommitting {
		c.stock.isScheduled.Store(false)
	}
	return isCommitting
}

// storeStockLater has storage learn what the copy has observed: soon, or if usage stays the same at the next occasion.
func (c *committer) storeStockLater() {
	switch {
	case !c.stock.isAhead || !c.isPreferred():
	case c.mustStoreStock():
		c.observeSoon()
	case !c.stock.isTransferring:
		c.stock.isTransferring = true
		op := newObservation()
		op.maxDelay = transferDelay - time.Since(c.stock.since)
		committed := op.committed
		op.committed = func() {
			c.stock.isTransferring = false
			committed()
		}
		c.commitLater(op)
	}
}

// resumeWaiting decides the waiting operations again: they may fit now.
func (c *committer) resumeWaiting() {
	if c.waiting.count.Load() > 0 {
		c.group.Resume()
	}
}

// stockStored notes that storage has everything observed.
func (c *committer) stockStored() {
	for _, key := range c.stock.ended {
		c.releaseDone(key)
	}
	c.store.ended.retain(c.consumer, c.ledger)
	c.store.observed.set(c.consumer, ObservedIn(c.ledger.Observations()))
	c.hasGrown = c.hasGrown || c.stock.freesQuota
	c.hasChanged = c.hasChanged || c.stock.isAhead
	c.stock.forgetNews()
}
