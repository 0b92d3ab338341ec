// Package forecast decides changes of objects without making them: on copies of ledgers, in order, and by the decisions
// of package ledger. It changes no ledger in storage.
//
// Package quotareview answers reviews with it, and commands evaluate policies offline.
package forecast

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Change is the change of an object's charges on one consumer by one policy.
type Change struct {
	Consumer quotav1alpha1.ConsumerRef
	// Before are the present charges, and After the charges after the change. Either may be empty, but not both.
	Before, After []ledger.Charge
	// Overdraft means that the limit does not deny the change.
	Overdraft bool
}

// isReduction reports whether no amount grows.
func (c *Change) isReduction() bool {
	return !slices.ContainsFunc(c.After, func(after ledger.Charge) bool {
		return !slices.ContainsFunc(c.Before, func(before ledger.Charge) bool {
			return before.ResourceType == after.ResourceType && before.Dimensions == after.Dimensions && before.Amount >= after.Amount
		})
	})
}

// Ledgers are the ledgers at the start of a forecast.
type Ledgers interface {
	// Ledger returns the ledger of a consumer as of now. The caller may change it.
	Ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error)
}

// Forecast decides changes on copies of ledgers. It is not safe for concurrent use.
type Forecast struct {
	Ledgers Ledgers

	outcomes map[quotav1alpha1.ConsumerRef]outcome
	keys     int
}

// outcome is a ledger before and after the changes decided so far.
type outcome struct{ before, after *ledger.Ledger }

// Outcome returns the ledger of a consumer before and after the changes decided so far. The caller must not change
// them.
func (f *Forecast) Outcome(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (before, after *ledger.Ledger, err error) {
	if known, ok := f.outcomes[consumer]; ok {
		return known.before, known.after, nil
	}
	if after, err = f.Ledgers.Ledger(ctx, consumer); err == nil {
		before, err = ledger.Restore(after.Snapshot())
	}
	if err == nil {
		before.SetTypes(after.Types())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	if f.outcomes == nil {
		f.outcomes = map[quotav1alpha1.ConsumerRef]outcome{}
	}
	f.outcomes[consumer] = outcome{before, after}
	return before, after, nil
}

// Decide decides the changes of objects, object by object. It makes all changes of an object, or none; a change with an
// overdraft does not prevent the others. Capacity freed by one object is there for all others of the set. With surge,
// Decide takes the purely freeing objects last. An object with both increases and reductions frees in its turn. Without
// surge, Decide tries denied objects once more at the end. It returns a decision for each change.
func (f *Forecast) Decide(ctx context.Context, objects [][]Change, surge bool) ([][]ledger.Decision, error) {
	decisions := make([][]ledger.Decision, len(objects))
	decide := func(reductions bool) error {
		for i, changes := range objects {
			if areReductions(changes) != reductions {
				continue
			}
			var err error
			if decisions[i], err = f.decideObject(ctx, changes); err != nil {
				return err
			}
		}
		return nil
	}
	if err := decide(!surge); err != nil {
		return nil, err
	}
	if err := decide(surge); err != nil || surge {
		return decisions, err
	}
	for i, changes := range objects {
		if isAdmitted(changes, decisions[i]) {
			continue
		}
		again, err := f.decideObject(ctx, changes)
		if err != nil {
			return nil, err
		}
		if isAdmitted(changes, again) {
			decisions[i] = again
		}
	}
	return decisions, nil
}

// isAdmitted reports whether nothing prevents the changes of an object.
func isAdmitted(changes []Change, decisions []ledger.Decision) bool {
	for i, d := range decisions {
		if d.Code != ledger.Admitted && !changes[i].Overdraft {
			return false
		}
	}
	return true
}

func areReductions(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return !c.isReduction() })
}

// prepared is a change admitted by its ledger.
type prepared struct {
	*ledger.Ledger
	key   string
	after []ledger.Charge
	// amends is set if the change amends charges, and is otherwise new.
	amends bool
}

func (f *Forecast) decideObject(ctx context.Context, changes []Change) ([]ledger.Decision, error) {
	decisions := make([]ledger.Decision, len(changes))
	var all []prepared
	for i := range changes {
		_, l, err := f.Outcome(ctx, changes[i].Consumer)
		if err != nil {
			return nil, err
		}
		f.keys++
		p := prepared{Ledger: l, key: "forecast:" + strconv.Itoa(f.keys), after: changes[i].After, amends: len(changes[i].Before) > 0}
		decisions[i] = p.prepare(&changes[i])
		if decisions[i].Code == ledger.Admitted {
			all = append(all, p)
		}
	}
	isMade := isAdmitted(changes, decisions)
	for _, p := range all {
		if isMade {
			p.settle()
		} else {
			p.Cancel(p.key, 0)
		}
	}
	return decisions, nil
}

// prepare reserves the change. A decision with an overdraft has the shortages.
func (p *prepared) prepare(c *Change) ledger.Decision {
	r := ledger.Reservation{Key: p.key, Charges: c.After, Replaces: c.Before}
	limits, overdraft := p.Reserve, p.ReserveOverdraft
	if p.amends {
		limits, overdraft = p.Amend, p.AmendOverdraft
	}
	decision := limits(r)
	if decision.Code != ledger.Exceeded || !c.Overdraft {
		return decision
	}
	shortages := decision.Shortages
	if decision = overdraft(r); decision.Code == ledger.Admitted {
		decision.Shortages = shortages
	}
	return decision
}

func (p *prepared) settle() {
	if p.amends {
		p.SettleAmendment(p.key, 0, p.after)
	} else {
		p.Settle(p.key, 0)
	}
}

// Copy returns a copy of a ledger for a forecast: nothing is in slices, and observed demand and all new reservations
// are usage, as that of settled claims. So a [Change] of an object gives back what it holds, whoever counted it.
func Copy(l *ledger.Ledger) (*ledger.Ledger, error) {
	snapshot := l.Snapshot()
	snapshot.Slices = nil
	snapshot.Used = withObserved(snapshot.Used, snapshot.Observations)
	snapshot.Observations = nil
	for i := range snapshot.Reservations {
		snapshot.Reservations[i].Awaits = nil // no observation ends requests in the copy
	}

	c, err := ledger.Restore(snapshot)
	if err != nil {
		return nil, fmt.Errorf("copy the ledger: %w", err)
	}
	c.SetTypes(l.Types())
	for _, r := range snapshot.Reservations {
		if len(r.Replaces) == 0 {
			c.Settle(r.Key, 0)
		}
	}
	return c, nil
}

// withObserved returns usage with observed demand added. Each object counts as a claim.
func withObserved(used []ledger.Usage, observations []ledger.Observation) []ledger.Usage {
	type balance struct {
		resourceType string
		dimensions   ledger.Dimensions
	}
	places := map[balance]int{}
	for i := range used {
		places[balance{used[i].ResourceType, used[i].Dimensions}] = i
	}

	for _, o := range observations {
		for _, d := range o.Demands {
			at := balance{d.ResourceType, d.Dimensions}
			place, isKnown := places[at]
			if !isKnown {
				place = len(used)
				places[at] = place
				used = append(used, ledger.Usage{ResourceType: d.ResourceType, Dimensions: d.Dimensions})
			}
			used[place].Amount += d.Amount // the sum of an account is within its bounds
			used[place].Claims += d.Objects
		}
	}
	return used
}
