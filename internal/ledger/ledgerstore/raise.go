package ledgerstore

import (
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// raise decides a request of which the ledger has another attempt: at most one of them has an effect, so the
// reservation has the larger charges of both.
func (d *decider) raise(l *ledger.Ledger, before, r ledger.Reservation) (decision ledger.Decision, hasChanged bool) {
	larger := largerCharges(before.Charges, r.Charges)
	if slices.Equal(larger, before.Charges) {
		return ledger.Decision{Code: ledger.Admitted, Sequence: before.Sequence, Existing: true}, false
	}

	trial := l.Begin()
	l.Cancel(r.Key, 0)
	r.Charges = larger
	if decision = d.decideByLimits(l, r, l.Reserve, l.ReserveOverdraft); decision.Code != ledger.Admitted {
		trial.Discard()
		return decision, false
	}
	trial.Keep()
	d.raised = append(d.raised, before)
	return decision, true
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

// kindsIn returns the kinds whose objects use quota, or may because a request for one is pending.
func kindsIn(l *ledger.Ledger) []string {
	var kinds []string
	for o := range l.Observations() {
		if len(o.Demands) > 0 {
			kinds = append(kinds, o.Kind)
		}
	}
	for r := range l.Reservations() {
		if r.Awaits != nil {
			kinds = append(kinds, r.Awaits.Kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
