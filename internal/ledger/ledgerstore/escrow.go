package ledgerstore

import (
	"maps"
	"slices"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// sliceLease is how long a process admits from its slice after it last found the slice in storage, regardless of
	// other processes.
	sliceLease = 10 * time.Second
	// SliceStalledAfter is how long a ledger with the slice of another process may stay as it is. A living holder writes
	// more often: see recordDelayMax and trimDelay.
	SliceStalledAfter = 15 * time.Second

	// recordDelayMin and recordDelayMax bound the wait of an admission for its record, see [committer.recordDelay].
	recordDelayMin = 500 * time.Millisecond
	recordDelayMax = 2 * time.Second
)

// recordDelay returns how long an admission waits for its record, to share the write with many. After a quiet time the
// wait is short. Otherwise consumers have their turns at different moments, to spread the writes. Other writes do not
// move the turn.
func (c *committer) recordDelay(now time.Time) time.Duration {
	if now.Sub(c.lastWrite()) >= recordDelayMax {
		return recordDelayMin
	}
	return max(recordDelayMin, recordDelayMax-(time.Duration(now.UnixNano())+c.turn)%recordDelayMax)
}

// Escrow admits reservations from the slice of this process, without a write: the slice covers them until a later
// commit records them in the ledger. Escrow reports false if the slice cannot cover them all, or the ledger may have
// less than spare; then nothing has happened, and [Store.Apply] decides.
//
// All reservations await objects that the inventory counts: if this process dies, they count all the same. None has
// dimensions.
func (s *Store) Escrow(consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation, spare Spare) bool {
	if s.IsDurable || s.isClosing.Load() || s.Replicas != nil && !s.Replicas.IsPreferred(consumer) {
		return false
	}
	for i := range reservations {
		if reservations[i].Check() != ledger.Admitted {
			return false // [Store.Apply] denies it
		}
		if awaits := reservations[i].Awaits; awaits == nil || s.Inventory == nil || !s.Inventory.IsListed(awaits.Kind) {
			return false // nobody could tell later whether its object counts already
		}
	}

	inFlight := s.inflight.count(consumer)
	if !s.inflight.addUnrecorded(consumer, reservations) {
		return false // a repeated review has its outcome in the ledger
	}
	c := s.committer(consumer)
	if !c.escrow.admit(reservations, spare, inFlight, int(c.bytes.Load())) {
		s.inflight.removeUnrecorded(consumer, reservations)
		return false
	}

	for i := range reservations {
		if !c.commitLater(c.record(reservations[i], time.Now())) {
			// An idle committer has no slice, so this one ended before the first reservation.
			c.escrow.forget(reservations)
			s.inflight.removeUnrecorded(consumer, reservations)
			return false
		}
	}
	s.metrics.escrowed.Inc()
	return true
}

// Record records at once the admissions from the slice.
func (s *Store) Record(consumer quotav1alpha1.ConsumerRef) {
	s.with(consumer, func(c *committer) bool {
		return c.commitNow(&operation{apply: nothing})
	})
}

// escrow is a process's knowledge of its slice of one ledger and of its admissions from it. The zero value has no
// slice.
type escrow struct {
	mu sync.Mutex
	// types knows the counted resource types: no slice has those. It is nil if there are none.
	types   ledger.Types
	counted counted
	// covered are the amounts that the slice in storage covers, whatever the outcome of a write under way.
	covered amounts
	// available are the payable amounts besides the slices of other processes, as of the latest read or write.
	available amounts
	// unrecorded are the amounts of the admissions without a record, with their number and size.
	unrecorded   amounts
	count, bytes int
	// recording are the amounts recorded by the batch under way.
	recording amounts
	// confirmed is a time at which the slice was in storage.
	confirmed time.Time
	demand    map[string]*demand
	// isSuspended is set while the ledger cannot have what exists: then the slice admits nothing.
	isSuspended bool
	// isTrimming is set while an operation waits to trim the slice.
	isTrimming bool
}

// amounts are amounts by resource type. They are sums of charges within a slice and do not overflow.
type amounts map[string]ledger.Amount

func (a amounts) add(charges []ledger.Charge, sign ledger.Amount) amounts {
	if a == nil {
		a = amounts{}
	}
	for i := range charges {
		a[charges[i].ResourceType] += sign * charges[i].Amount
	}
	return a
}

// admit takes reservations from the slice, unless it does not cover them, or the ledger has no room for them.
func (e *escrow) admit(reservations []ledger.Reservation, spare Spare, inFlight, ledgerBytes int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(reservations, hasDimensions) {
		return false // no slice could pay for it
	}

	now, size := time.Now(), 0
	canCount, isSliced := true, false
	for i := range reservations {
		enforced := e.enforced(reservations[i].Charges)
		e.noteDemandLocked(enforced, now)
		isSliced = isSliced || len(enforced) > 0
		canCount = e.canCountLocked(reservations[i].Charges) && canCount
		size += reservations[i].Size()
	}

	if e.isSuspended || !canCount || !isSliced { // nothing would cover the object if this process died
		return false
	}
	if !e.isConfirmedLocked(now) || inFlight+len(reservations) > ReservationsMax || ledgerBytes+e.bytes+size > ledger.BytesMax {
		return false
	}
	if !e.canSpareLocked(spare, inFlight) || !e.coversLocked(reservations) {
		return false
	}

	for i := range reservations {
		e.unrecorded = e.unrecorded.add(e.enforced(reservations[i].Charges), 1)
	}
	e.count += len(reservations)
	e.bytes += size
	return true
}

// coversLocked reports whether the rest of the slice covers reservations.
func (e *escrow) coversLocked(reservations []ledger.Reservation) bool {
	rest := amounts{}
	for resourceType, amount := range e.covered {
		rest[resourceType] = amount - e.unrecorded[resourceType]
	}
	for i := range reservations {
		for _, charge := range e.enforced(reservations[i].Charges) {
			if charge.Amount > rest[charge.ResourceType] {
				return false
			}
			rest[charge.ResourceType] -= charge.Amount
		}
	}
	return true
}

// canSpareLocked reports whether the ledger had enough for others at its latest read or write.
func (e *escrow) canSpareLocked(spare Spare, inFlight int) bool {
	for _, charge := range e.enforced(spare.Charges) {
		if charge.Amount > e.available[charge.ResourceType]-e.unrecorded[charge.ResourceType] {
			return false
		}
	}
	return inFlight+spare.Reservations <= ReservationsMax
}

func hasDimensions(r ledger.Reservation) bool {
	return slices.ContainsFunc(r.Charges, func(c ledger.Charge) bool { return !c.Dimensions.IsZero() })
}

// isConfirmedLocked reports whether the slice is certainly valid, or revoked so recently that the other process still
// waits. The monotonic clock may stand still while the machine sleeps, and the other one may jump: both have to agree.
func (e *escrow) isConfirmedLocked(now time.Time) bool {
	wall := now.Round(0).Sub(e.confirmed.Round(0)) // without the monotonic clock
	return now.Sub(e.confirmed) < sliceLease && 0 <= wall && wall < sliceLease
}

// forget ends admissions with a record, or without need for one.
func (e *escrow) forget(reservations []ledger.Reservation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range reservations {
		e.unrecorded.add(e.enforced(reservations[i].Charges), -1)
		e.count--
		e.bytes -= reservations[i].Size()
	}
}

// unrecordedBeside returns what the slice has to cover beside some charges of an admission without a record: the
// others.
func (e *escrow) unrecordedBeside(charges []ledger.Charge) map[string]ledger.Amount {
	e.mu.Lock()
	defer e.mu.Unlock()
	rest := map[string]ledger.Amount{}
	for resourceType := range e.unrecorded {
		rest[resourceType] = e.restLocked(resourceType)
	}
	for _, c := range e.enforced(charges) {
		rest[c.ResourceType] = max(0, rest[c.ResourceType]-c.Amount)
	}
	return rest
}

func (e *escrow) noteRecorded(charges []ledger.Charge) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recording = e.recording.add(e.enforced(charges), 1)
}

// begin begins an attempt to commit a batch.
func (e *escrow) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recording = nil
}

// found takes the slice from a ledger just read or written, at a time. With mayChange an earlier write of this process
// may still reach storage: then the slice covers only the smaller of the two amounts.
func (e *escrow) found(l *ledger.Ledger, holder string, at time.Time, mayChange bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updateCountedLocked(l)
	before := e.covered
	e.confirmed, e.covered, e.available = at, nil, amounts{}
	s, ok := l.Slice(holder)
	if !ok || s.IsRevoked {
		return
	}
	if mayChange {
		for resourceType, amount := range s.Amounts {
			s.Amounts[resourceType] = min(amount, before[resourceType])
		}
	}
	for resourceType, amount := range s.Amounts { // a limit may have fallen, or usage risen beyond it
		e.available[resourceType] = l.AvailableToSlice(holder, resourceType)
		s.Amounts[resourceType] = min(amount, e.available[resourceType])
	}
	e.covered = s.Amounts
}

// confirm records that the ledger was in storage unchanged at a time.
func (e *escrow) confirm(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.confirmed = at
}

// restLocked returns the amount for the slice in the copy to keep: the admissions without a record in the batch under
// way.
func (e *escrow) restLocked(resourceType string) ledger.Amount {
	return max(0, e.unrecorded[resourceType]-e.recording[resourceType])
}

// yield reduces the slice in the copy to the admissions without a record, and stops further ones until the next commit.
// If the copy is discarded, call resume so that the slice admits again. It is nil if the slice has no more than that.
func (e *escrow) yield(l *ledger.Ledger, holder string) (resume func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slice, ok := l.Slice(holder)
	if !ok {
		return nil
	}

	covered, hasYielded := maps.Clone(e.covered), false
	slice.Amounts = maps.Clone(slice.Amounts)
	for resourceType, amount := range slice.Amounts {
		rest := e.restLocked(resourceType)
		if rest >= amount {
			continue
		}
		hasYielded = true
		if slice.Amounts[resourceType] = rest; rest == 0 {
			delete(slice.Amounts, resourceType)
		}
		if _, is := e.covered[resourceType]; is {
			e.covered[resourceType] = min(e.covered[resourceType], e.unrecorded[resourceType])
		}
	}

	if !hasYielded || !l.SetSlice(slice) {
		return nil
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.covered = covered
	}
}

// isHeld reports whether the process has a slice, or admissions without a record.
func (e *escrow) isHeld() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.covered) > 0 || e.count > 0
}
