package ledgerstore

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// raise decides a request of which the ledger has another attempt. At most one of the two has an effect, so one
// reservation is for both.
func (d *decider) raise(l *ledger.Ledger, before, r ledger.Reservation) (decision ledger.Decision, hasChanged bool) {
	if isEnough(&before, &r) {
		return ledger.Decision{Code: ledger.Admitted, Sequence: before.Sequence, Existing: true}, false
	}

	both := forBoth(before, r)
	trial := l.Begin()
	l.Cancel(r.Key, 0)
	if !slices.Equal(both.Charges, before.Charges) { // it takes more
		decision = d.decideByLimits(l, both)
	} else {
		decision = l.ReserveOverdraft(both) // the limits may have fallen since
	}
	if decision.Code != ledger.Admitted {
		trial.Discard()
		return decision, false
	}
	trial.Keep()
	d.raised = append(d.raised, before)
	return decision, true
}

// forBoth returns the reservation for two attempts at the same request: it has the larger charges, and waits for the
// latest versions of namespaces and policies that the charges of any attempt rest on.
func forBoth(before, r ledger.Reservation) ledger.Reservation {
	r.Charges = largerCharges(before.Charges, r.Charges)
	if before.Awaits != nil {
		awaits := *r.Awaits
		awaits.Namespaces = max(awaits.Namespaces, before.Awaits.Namespaces)
		awaits.Policies = max(awaits.Policies, before.Awaits.Policies)
		r.Awaits = &awaits
	}
	return r
}

// raiseFromSlice records a request, admitted from the slice, of which another replica has recorded an attempt that does
// not hold enough for both.
func (c *committer) raiseFromSlice(l *ledger.Ledger, before, r ledger.Reservation) groupcommit.Effect {
	trial := l.Begin()
	l.Cancel(r.Key, 0)
	if l.ReserveInSlice(c.store.holder, forBoth(before, r), c.escrow.unrecordedBeside(r.Charges)).Code != ledger.Admitted {
		trial.Discard()
		return groupcommit.Nothing // the slice covers it until there is room
	}
	trial.Keep()
	c.escrow.noteRecorded(r.Charges)
	return groupcommit.Changed
}

// isEnough reports whether a recorded attempt at a request holds enough for another one, too.
func isEnough(before, r *ledger.Reservation) bool {
	both := forBoth(*before, *r)
	return slices.Equal(both.Charges, before.Charges) && (before.Awaits == nil || ptr.Equal(both.Awaits, before.Awaits))
}

// largerCharges returns the larger charge of each resource type and dimensions: those of before in their order, and
// then the others.
func largerCharges(before, after []ledger.Charge) []ledger.Charge {
	all := slices.Clone(before)
	for _, c := range after {
		i := slices.IndexFunc(all, func(other ledger.Charge) bool {
			return other.ResourceType == c.ResourceType && other.Dimensions == c.Dimensions
		})
		if i < 0 {
			all = append(all, c)
		} else {
			all[i].Amount = max(all[i].Amount, c.Amount)
		}
	}
	return all
}

// raises reports whether a request takes more than an earlier attempt at it.
func (d *decider) raises(l *ledger.Ledger) bool {
	return slices.ContainsFunc(d.Reservations, func(r ledger.Reservation) bool {
		before, isKnown := l.Reservation(r.Key)
		return isKnown && r.Awaits != nil && !slices.Equal(largerCharges(before.Charges, r.Charges), before.Charges)
	})
}

// kindsIn returns the kinds whose objects use quota of one of the short resource types, or may because a request for
// some is pending.
func kindsIn(l *ledger.Ledger, shortages []ledger.Shortage) []string {
	isShort := func(resourceType string) bool {
		return slices.ContainsFunc(shortages, func(s ledger.Shortage) bool { return s.ResourceType == resourceType })
	}
	var kinds []string
	for o := range l.Observations() {
		if slices.ContainsFunc(o.Demands, func(d ledger.Demand) bool { return isShort(d.ResourceType) }) {
			kinds = append(kinds, o.Kind)
		}
	}
	for r := range l.Reservations() {
		if r.Awaits != nil && slices.ContainsFunc(r.Charges, func(c ledger.Charge) bool { return isShort(c.ResourceType) }) {
			kinds = append(kinds, r.Awaits.Kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
