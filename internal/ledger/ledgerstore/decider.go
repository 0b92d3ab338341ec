package ledgerstore

import (
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// decider decides one request on a ledger, and again with each repetition of the commit.
type decider struct {
	Request
	store    *Store
	consumer quotav1alpha1.ConsumerRef

	outcome Outcome
	rests   denialBasis
	// isFull makes the request wait until some reservations in flight end, and isHeld until another process returns its
	// slice.
	isFull, isHeld bool
	// isTooMuch is set for a request that fits, while its Spare does not.
	isTooMuch bool
	// admitted are the reservations as in the ledger now, and taken are the former keys of those taken over.
	admitted []ledger.Reservation
	taken    []string
	// raised are the reservations that the request has raised, as they were before.
	raised []ledger.Reservation
	// latest is the latest sequence before the decision: later ones are of this process.
	latest int64
}

func (d *decider) operation() *operation {
	return &operation{apply: d.apply, committed: d.committed, needsStock: true}
}

// apply decides the request, and leaves the ledger as it was unless the request is admitted and no dry run.
func (d *decider) apply(l *ledger.Ledger, releasing bool) groupcommit.Effect {
	d.outcome, d.admitted, d.taken, d.raised, d.isHeld, d.isTooMuch = Outcome{}, nil, nil, nil, false, false
	d.rests, d.latest = denialBasis{}, l.Sequence()

	trial := l.Begin()
	effect := d.decideRequest(l, releasing)
	if d.outcome.Code == ledger.Exceeded && d.store.Inventory != nil {
		d.rests = denialBasis{kindsIn(l, d.outcome.Shortages), d.store.committer(d.consumer).stock.outdated}
	}
	if effect == groupcommit.Changed {
		trial.Keep()
	} else {
		trial.Discard()
		d.taken = nil
	}
	return effect
}

func (d *decider) decideRequest(l *ledger.Ledger, releasing bool) groupcommit.Effect {
	if d.DryRun == NotDry {
		d.takeOver(l)
	}
	added := notIn(l, d.Reservations)
	if d.isFull = d.hasNoRoom(l, added); d.isFull {
		return groupcommit.Postponed
	}
	if d.isTooMuch = d.takesSpare(l, added); d.isTooMuch {
		return groupcommit.Nothing
	}

	hasChanged := d.decideBesideSlices(l)
	switch {
	case d.isHeld, d.outcome.Code == ledger.Exceeded && releasing:
		return groupcommit.Postponed
	case d.DryRun != NotDry:
		return d.endDryRun()
	case d.outcome.Code != ledger.Admitted:
		return groupcommit.Unconfirmed
	}

	if d.TakesOver && d.renew(l) {
		hasChanged = true
	}
	d.collectOutcome(l)
	if hasChanged || len(d.taken) > 0 {
		return groupcommit.Changed
	}
	return groupcommit.Unconfirmed
}

// decideBesideSlices decides the request, and reports whether the ledger changed. Quota in slices is not in use: the
// slice of this process makes way for the request, and with those of others it waits. So the figures of a denial are
// without slices.
func (d *decider) decideBesideSlices(l *ledger.Ledger) (hasChanged bool) {
	if d.Separately && d.DryRun != NotDry {
		l.DropSlices("")
	}
	if hasChanged = d.decideAll(l); l.SliceCount() == 0 || d.outcome.Code != ledger.Exceeded {
		return hasChanged
	}

	if resume := d.store.committer(d.consumer).escrow.yield(l, d.store.holder); resume != nil {
		hasChanged = d.decideAll(l)
		if d.outcome.Code == ledger.Admitted && d.DryRun == NotDry {
			return hasChanged
		}
		defer resume()
		if d.outcome.Code != ledger.Exceeded {
			return hasChanged
		}
	}

	trial := l.Begin()
	defer trial.Discard()
	l.DropSlices(d.store.holder) // the rest of its own is in use
	d.decideAll(l)
	d.isHeld = d.outcome.Code != ledger.Exceeded
	return false
}

// takesSpare reports whether a request that fits would leave less to others than its Spare. Repeated reviews and
// takeovers take nothing more. Nobody loses by a request that does not fit: it gets its denial.
func (d *decider) takesSpare(l *ledger.Ledger, added []ledger.Reservation) bool {
	if len(added) == 0 && !d.raises(l) || d.Spare.isIn(l) {
		return false
	}

	trial := l.Begin()
	defer trial.Discard()
	d.decideAll(l)
	return d.outcome.Code != ledger.Exceeded
}

// decideAll decides the request, and reports whether the ledger changed.
func (d *decider) decideAll(l *ledger.Ledger) (hasChanged bool) {
	if d.Separately {
		return d.decideSeparately(l)
	}
	return d.decideTogether(l)
}

// endDryRun completes the outcome of a dry run, and returns its effect.
func (d *decider) endDryRun() groupcommit.Effect {
	for i := range d.outcome.Decisions {
		d.outcome.Decisions[i].Sequence = 0
	}
	if d.outcome.Code == ledger.Admitted && d.DryRun == DryLikely {
		return groupcommit.Nothing
	}
	return groupcommit.Unconfirmed
}

// hasNoRoom reports whether the request must wait for reservations in flight to end. It returns false for a request too
// large even then: the ledger denies it. A dry run of separate reservations checks each of them later.
func (d *decider) hasNoRoom(l *ledger.Ledger, added []ledger.Reservation) bool {
	return !(d.DryRun != NotDry && d.Separately) && isFull(l, added)
}

// decideTogether adds all reservations or none, and reports whether the ledger changed.
func (d *decider) decideTogether(l *ledger.Ledger) (hasChanged bool) {
	trial := l.Begin()
	decisions := make([]ledger.Decision, len(d.Reservations))
	for i := range d.Reservations {
		var isNew bool
		decisions[i], isNew = d.decide(l, d.Reservations[i])
		hasChanged = hasChanged || isNew
		if decisions[i].Code != ledger.Admitted {
			trial.Discard()
			d.deny(l, i, decisions[i])
			return false
		}
	}
	trial.Keep()
	d.outcome = Outcome{Code: ledger.Admitted, Decisions: decisions}
	return hasChanged
}

// deny makes the decision against one reservation the outcome. Of several reservations, it has the shortages of all.
func (d *decider) deny(l *ledger.Ledger, index int, decision ledger.Decision) {
	d.outcome = Outcome{Code: decision.Code, FailedIndex: index, Shortages: decision.Shortages}
	if decision.Code != ledger.Exceeded || len(d.Reservations) == 1 {
		return
	}
	if all := shortagesOf(l, notIn(l, d.Reservations)); len(all) > 0 {
		d.outcome.Shortages = all
	}
}

// decideSeparately adds each admitted reservation, and reports whether the ledger changed.
func (d *decider) decideSeparately(l *ledger.Ledger) (hasChanged bool) {
	decisions := make([]ledger.Decision, len(d.Reservations))
	for i := range d.Reservations {
		r := d.Reservations[i]
		if d.DryRun != NotDry && isFull(l, notIn(l, d.Reservations[i:i+1])) {
			break
		}
		var isNew bool
		decisions[i], isNew = d.decide(l, r)
		hasChanged = hasChanged || isNew
	}
	d.outcome = Outcome{Code: ledger.Admitted, Decisions: decisions}
	return hasChanged
}

// decide decides one reservation, and reports whether the ledger changed.
func (d *decider) decide(l *ledger.Ledger, r ledger.Reservation) (decision ledger.Decision, hasChanged bool) {
	if before, isKnown := l.Reservation(r.Key); isKnown && r.Awaits != nil {
		return d.raise(l, before, r)
	}
	decision = d.decideByLimits(l, r)
	return decision, decision.Code == ledger.Admitted && !decision.Existing
}

// decideByLimits decides by the limits. If the request exceeds them and allows overdraft, it decides by overdraft, and
// the decision has the shortages as well.
func (d *decider) decideByLimits(l *ledger.Ledger, r ledger.Reservation) ledger.Decision {
	decision := l.Reserve(r)
	if decision.Code != ledger.Exceeded || !d.Overdraft {
		return decision
	}

	shortages := decision.Shortages
	if l.SliceCount() > 0 {
		shortages = d.shortagesBesideSlice(l, r)
	}
	if decision = l.ReserveOverdraft(r); decision.Code == ledger.Admitted {
		decision.Shortages = shortages
	}
	return decision
}

// shortagesBesideSlice returns the shortages of a reservation, without the slice of this process: beyond the limits, it
// is in nobody's way. Others may use theirs at this moment.
func (d *decider) shortagesBesideSlice(l *ledger.Ledger, r ledger.Reservation) []ledger.Shortage {
	trial := l.Begin()
	defer trial.Discard()
	l.DropSlice(d.store.holder)
	return l.Reserve(r).Shortages
}

// collectOutcome fills admitted and the taken-over keys from the ledger.
func (d *decider) collectOutcome(l *ledger.Ledger) {
	for i := range d.Reservations {
		if r, isThere := l.Reservation(d.Reservations[i].Key); isThere && d.outcome.Decisions[i].Code == ledger.Admitted {
			d.admitted = append(d.admitted, r)
		}
	}
	d.outcome.Taken, d.outcome.Raised = d.taken, d.raised
}

// committed runs after the write of the decision.
func (d *decider) committed() {
	for _, key := range d.taken {
		d.store.inflight.remove(d.consumer, key, 0)
	}
	for _, r := range d.admitted {
		d.store.inflight.add(d.consumer, r, r.Sequence > d.latest)
	}
}

// takeOver ends earlier reservations with the same charges as new ones, which are decided next.
func (d *decider) takeOver(l *ledger.Ledger) {
	for i := range d.Reservations {
		r := &d.Reservations[i]
		key := d.Instead[r.Key]
		held, ok := l.Reservation(key)
		if !ok || held.Awaits == nil || !slices.Equal(held.Charges, r.Charges) {
			continue
		}
		if l.Cancel(key, held.Sequence) {
			d.taken = append(d.taken, key)
		}
	}
}

// renew gives existing reservations a new sequence. It reports whether there are any.
func (d *decider) renew(l *ledger.Ledger) bool {
	var any bool
	for i := range d.outcome.Decisions {
		decision := &d.outcome.Decisions[i]
		if !decision.Existing || decision.Sequence > d.latest {
			continue
		}
		if sequence, ok := l.Renew(d.Reservations[i].Key, 0); ok {
			decision.Sequence, any = sequence, true
		}
	}
	return any
}

// notIn returns the reservations missing in the ledger.
func notIn(l *ledger.Ledger, reservations []ledger.Reservation) []ledger.Reservation {
	added := make([]ledger.Reservation, 0, len(reservations))
	for _, r := range reservations {
		if _, known := l.Reservation(r.Key); !known {
			added = append(added, r)
		}
	}
	return added
}

// isFull reports whether the ledger has no room for new reservations until some in flight end. It returns false for
// reservations too large even then: the ledger denies them.
func isFull(l *ledger.Ledger, added []ledger.Reservation) bool {
	count, size := l.ReservationCount(), l.Bytes()
	if len(added) == 0 || count == 0 {
		return false
	}
	for i := range added {
		count++
		size += l.BytesNeeded(&added[i])
	}
	return count > ReservationsMax || size > ledger.BytesMax && size-l.ReservedBytes() <= ledger.BytesMax
}
