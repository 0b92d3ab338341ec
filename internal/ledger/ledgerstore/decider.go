package ledgerstore

import (
	"slices"
	"strings"

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
	// isFull makes the request wait until some reservations in flight end, and isHeld until another process returns its
	// slice.
	isFull, isHeld bool
	// isTooMuch is set for a request that fits, while its Spare does not.
	isTooMuch bool
	// admitted are the reservations as in the ledger now, and renamed are those taken over, as before.
	admitted, renamed []ledger.Reservation
	// latest is the latest sequence before the decision: later ones are of this process. former is the sequence of an
	// extended reservation.
	latest, former int64
}

func (d *decider) operation() *operation {
	return &operation{apply: d.apply, committed: d.committed}
}

func (d *decider) apply(l *ledger.Ledger, releasing bool) groupcommit.Effect {
	d.outcome, d.admitted, d.renamed, d.isHeld, d.isTooMuch = Outcome{}, nil, nil, false, false
	d.latest, d.former = l.Sequence(), 0
	if d.DryRun == NotDry {
		d.renamed = rename(l, d.Reservations, d.Instead)
	}
	added := notIn(l, d.Reservations)
	if d.isFull = d.hasNoRoom(l, added); d.isFull {
		d.undoRenames(l)
		return groupcommit.Postponed
	}
	if d.isTooMuch = d.takesSpare(l, added); d.isTooMuch {
		d.undoRenames(l)
		return groupcommit.Nothing
	}
	hasChanged := d.decideBesideSlices(l, added)
	switch {
	case d.isHeld:
		d.undoRenames(l)
		return groupcommit.Postponed
	case d.DryRun != NotDry:
		cancelAll(l, added)
		for i := range d.outcome.Decisions {
			d.outcome.Decisions[i].Sequence = 0
		}
		return d.effectOfDryRun(releasing)
	case d.outcome.Code == ledger.Exceeded && releasing:
		d.undoRenames(l)
		return groupcommit.Postponed
	case d.outcome.Code != ledger.Admitted:
		d.undoRenames(l)
		return groupcommit.Unconfirmed
	}
	if d.TakesOver && d.renew(l) {
		hasChanged = true
	}
	d.collectOutcome(l)
	if hasChanged || len(d.renamed) > 0 {
		return groupcommit.Changed
	}
	return groupcommit.Unconfirmed
}

// decideBesideSlices decides the request, and reports whether the ledger changed. Quota in slices is not in use: the
// slice of this process makes way for the request, and with those of others it waits. So the figures of a denial are
// without slices.
func (d *decider) decideBesideSlices(l *ledger.Ledger, added []ledger.Reservation) (hasChanged bool) {
	if l.SliceCount() == 0 {
		return d.decideAll(l)
	}
	if d.Separately && d.DryRun != NotDry {
		defer l.LiftSlices("")()
		defer cancelAll(l, added)
		return d.decideAll(l)
	}
	if hasChanged = d.decideAll(l); d.outcome.Code != ledger.Exceeded {
		return hasChanged
	}
	if undo := d.store.committer(d.consumer).escrow.yield(l, d.store.holder); undo != nil {
		if hasChanged = d.decideAll(l); d.outcome.Code != ledger.Exceeded && d.DryRun == NotDry {
			return hasChanged
		}
		defer undo()
		if d.outcome.Code != ledger.Exceeded {
			cancelAll(l, added) // before the slice needs its place again
			return hasChanged
		}
	}
	defer l.LiftSlices(d.store.holder)() // the rest of its own is in use
	d.isHeld = d.wouldFit(l, added)
	return false
}

// takesSpare reports whether a request that fits would leave less to others than its Spare. Repeated reviews and
// takeovers take nothing more. Nobody loses by a request that does not fit: it gets its denial.
func (d *decider) takesSpare(l *ledger.Ledger, added []ledger.Reservation) bool {
	if len(added) == 0 && d.Extend == nil || d.Spare.isIn(l) {
		return false
	}
	return d.wouldFit(l, added)
}

// wouldFit decides the request as in a dry run.
func (d *decider) wouldFit(l *ledger.Ledger, added []ledger.Reservation) bool {
	before := d.DryRun
	d.DryRun = Dry
	d.decideAll(l)
	d.DryRun = before
	if d.outcome.Code == ledger.Exceeded {
		return false
	}
	cancelAll(l, added)
	return true
}

// decideAll decides the request, and reports whether the ledger changed.
func (d *decider) decideAll(l *ledger.Ledger) (hasChanged bool) {
	if d.Separately {
		return d.decideSeparately(l)
	}
	return d.decideTogether(l)
}

// effectOfDryRun returns the effect of a decision without a trace in the ledger.
func (d *decider) effectOfDryRun(releasing bool) groupcommit.Effect {
	switch {
	case d.outcome.Code == ledger.Exceeded && releasing:
		return groupcommit.Postponed
	case d.outcome.Code == ledger.Admitted && d.DryRun == DryLikely:
		return groupcommit.Nothing
	default:
		return groupcommit.Unconfirmed
	}
}

// hasNoRoom reports whether the request must wait for reservations in flight to end. It returns false for a request too
// large even then: the ledger denies it. A dry run of separate reservations checks each of them later.
func (d *decider) hasNoRoom(l *ledger.Ledger, added []ledger.Reservation) bool {
	switch {
	case d.DryRun != NotDry && d.Separately:
		return false
	case d.IsForExisting && len(added) > 0 && l.ReservationCount() >= existingMax:
		return true
	default:
		return isFull(l, added)
	}
}

// decideTogether adds all reservations or none, and reports whether the ledger changed.
func (d *decider) decideTogether(l *ledger.Ledger) (hasChanged bool) {
	decisions := make([]ledger.Decision, len(d.Reservations))
	for i := range d.Reservations {
		var isNew bool
		if decisions[i], isNew = d.decide(l, d.Reservations[i]); decisions[i].Code == ledger.Admitted {
			hasChanged = hasChanged || isNew
			continue
		}
		entered := make([]ledger.Reservation, 0, i)
		for j := range i {
			if !decisions[j].Existing {
				entered = append(entered, d.Reservations[j])
			}
		}
		cancelAll(l, entered)
		d.outcome = Outcome{Code: decisions[i].Code, FailedIndex: i, Shortages: decisions[i].Shortages}
		if d.outcome.Code == ledger.Exceeded && len(d.Reservations) > 1 {
			if all := shortagesOf(l, notIn(l, d.Reservations)); len(all) > 0 {
				d.outcome.Shortages = all
			}
		}
		return false
	}
	d.outcome = Outcome{Code: ledger.Admitted, Decisions: decisions}
	return hasChanged
}

// decideSeparately adds each admitted reservation, and reports whether the ledger changed.
func (d *decider) decideSeparately(l *ledger.Ledger) (hasChanged bool) {
	decisions := make([]ledger.Decision, len(d.Reservations))
	for i := range d.Reservations {
		r := d.Reservations[i]
		if d.DryRun != NotDry && isFull(l, notIn(l, d.Reservations[i:i+1])) {
			break
		}
		if before, isKnown := l.Reservation(r.Key); isKnown && len(r.Replaces) > 0 {
			decisions[i] = ledger.Decision{Code: ledger.Admitted, Sequence: before.Sequence, Existing: true}
			continue
		}
		var isNew bool
		decisions[i], isNew = d.decide(l, r)
		hasChanged = hasChanged || isNew
	}
	d.outcome = Outcome{Code: ledger.Admitted, Decisions: decisions}
	return hasChanged
}

// decide decides one reservation or amendment, and reports whether the ledger changed. A dry run leaves new
// reservations in the ledger for the following decisions; the caller cancels them.
func (d *decider) decide(l *ledger.Ledger, r ledger.Reservation) (decision ledger.Decision, hasChanged bool) {
	if len(r.Replaces) == 0 && d.Extend == nil {
		decision = d.decideByLimits(l, r, l.Reserve, l.ReserveOverdraft)
		return decision, decision.Code == ledger.Admitted && !decision.Existing
	}
	if isUnsettled(l, r.Key) {
		return ledger.Decision{Code: ledger.NotHeld}, false
	}
	before, isKnown := l.Reservation(r.Key)
	if isKnown && d.DryRun != NotDry {
		return d.decideByLimits(l, r, l.CheckAmendment, func(ledger.Reservation) ledger.Decision {
			return ledger.Decision{Code: ledger.Admitted}
		}), false
	}
	if isKnown && d.Extend != nil {
		r.Claim = d.Extend(before.Claim, r.Claim)
		d.former = before.Sequence
	}
	decision = d.decideByLimits(l, r, l.Amend, l.AmendOverdraft)
	return decision, decision.Code == ledger.Admitted
}

// decideByLimits decides by the limits. If the request exceeds them and allows overdraft, it decides by overdraft, and
// the decision has the shortages as well: beyond the limits, the own slice is in nobody's way.
func (d *decider) decideByLimits(l *ledger.Ledger, r ledger.Reservation, limits, overdraft func(ledger.Reservation) ledger.Decision) ledger.Decision {
	decision := limits(r)
	if decision.Code != ledger.Exceeded || !d.Overdraft {
		return decision
	}
	shortages := decision.Shortages
	if l.SliceCount() > 0 {
		shortages = d.shortagesBesideSlice(l, r)
	}
	if decision = overdraft(r); decision.Code == ledger.Admitted {
		decision.Shortages = shortages
	}
	return decision
}

// shortagesBesideSlice returns the shortages of a new reservation or amendment, without the slice of this process.
// Others may use theirs at this moment.
func (d *decider) shortagesBesideSlice(l *ledger.Ledger, r ledger.Reservation) []ledger.Shortage {
	if own, isHeld := l.Slice(d.store.holder); isHeld {
		l.DropSlice(own.Holder)
		defer l.RestoreSlice(own)
	}
	if len(r.Replaces) > 0 {
		return l.CheckAmendment(r).Shortages
	}
	return l.Check(r.Charges).Shortages
}

// collectOutcome fills admitted and the taken-over keys from the ledger.
func (d *decider) collectOutcome(l *ledger.Ledger) {
	for i := range d.Reservations {
		if r, isThere := l.Reservation(d.Reservations[i].Key); isThere && d.outcome.Decisions[i].Code == ledger.Admitted {
			d.admitted = append(d.admitted, r)
		}
	}
	for i := range d.renamed {
		d.outcome.Taken = append(d.outcome.Taken, d.renamed[i].Key)
	}
	d.outcome.Former = d.former
}

// committed runs after the write of the decision.
func (d *decider) committed() {
	for i := range d.renamed {
		d.store.inflight.remove(d.consumer, d.renamed[i].Key, 0)
	}
	for _, r := range d.admitted {
		d.store.inflight.add(d.consumer, r, r.Sequence > d.latest)
	}
}

// undoRenames undoes rename.
func (d *decider) undoRenames(l *ledger.Ledger) {
	for i := range d.renamed {
		l.UndoRename(d.renamed[i], keyInstead(d.Instead, d.renamed[i].Key))
	}
	d.renamed = nil
}

// rename renames earlier reservations with the same charges to new ones. It returns them as they were.
func rename(l *ledger.Ledger, reservations []ledger.Reservation, earlier map[string]string) (renamed []ledger.Reservation) {
	if len(earlier) == 0 {
		return nil
	}
	for i := range reservations {
		r := &reservations[i]
		held, ok := l.Reservation(earlier[r.Key])
		if !ok || !slices.Equal(held.Charges, r.Charges) {
			continue
		}
		if before, ok := l.Rename(held.Key, *r); ok {
			renamed = append(renamed, before)
		}
	}
	return renamed
}

// keyInstead returns the new key of a renamed reservation.
func keyInstead(earlier map[string]string, key string) string {
	for now, before := range earlier {
		if before == key {
			return now
		}
	}
	return ""
}

// renew gives existing reservations a new sequence, except those just renamed. It reports whether there are any.
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

func cancelAll(l *ledger.Ledger, reservations []ledger.Reservation) {
	for _, r := range reservations {
		l.Cancel(r.Key, 0)
	}
}

// isUnsettled reports whether a key belongs to an amendment of a directly created claim with its reservation in flight.
// The ledger alone does not show it: other claims of the consumer may have the same charges.
func isUnsettled(l *ledger.Ledger, key string) bool {
	if !IsAmendment(key) || ObjectUID(key) != "" {
		return false
	}
	_, known := l.Reservation(strings.TrimSuffix(key, amendmentSuffix))
	return known
}
