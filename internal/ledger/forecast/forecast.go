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
func (c *Change) isReduction() bool { return len(ledger.Growth(c.Before, c.After)) == 0 }

// Ledgers are the ledgers at the start of a forecast.
type Ledgers interface {
	// Ledger returns a copy of the ledger of a consumer as of now, made by [Copy]. The caller may change it.
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
// surge, Decide tries denied objects once more at the end. It returns a decision for each change. A decision has no
// code if the ledger lacks present charges: the object is being changed.
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
	*Change
	key string
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
		p := prepared{Ledger: l, Change: &changes[i], key: "forecast:" + strconv.Itoa(f.keys)}
		decisions[i] = p.prepare()
		if decisions[i].Code == ledger.Admitted {
			all = append(all, p)
		}
	}

	isMade := isAdmitted(changes, decisions)
	for _, p := range all {
		p.Cancel(p.key, 0)
		if !isMade {
			continue
		}
		if err := p.apply(); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// prepare reserves what the change adds. A decision with an overdraft has the shortages.
func (p *prepared) prepare() ledger.Decision {
	if !demandsOf(p.Observation(everything)).have(p.Before) {
		return ledger.Decision{}
	}
	r := ledger.Reservation{Key: p.key, Charges: ledger.Growth(p.Before, p.After)}
	if len(r.Charges) == 0 {
		return ledger.Decision{Code: ledger.Admitted}
	}
	decision := p.Reserve(r)
	if decision.Code != ledger.Exceeded || !p.Overdraft {
		return decision
	}
	shortages := decision.Shortages
	if decision = p.ReserveOverdraft(r); decision.Code == ledger.Admitted {
		decision.Shortages = shortages
	}
	return decision
}

// everything is the kind of the only observation of a copy, see [Copy].
const everything = "everything"

// apply makes the change in the demand of the copy.
func (p *prepared) apply() error {
	o := p.Observation(everything)
	demands := demandsOf(o)
	for _, charge := range p.Before {
		demands.add(charge, -1)
	}
	for _, charge := range p.After {
		demands.add(charge, 1)
	}
	o = ledger.Observation{Kind: everything, Basis: ledger.Basis{Objects: o.Basis.Objects + 1}, Demands: demands.list()}
	if _, err := p.Observe(o, nobody{}); err != nil {
		return fmt.Errorf("forecast for %s %s: %w", p.Consumer.Kind, p.Consumer.Name, err)
	}
	return nil
}

// Copy returns a copy of a ledger for a forecast: nothing is in slices, and everything in demand is observed as that of
// one kind. So a [Change] of an object gives back what it holds, whoever counted it.
func Copy(l *ledger.Ledger) (*ledger.Ledger, error) {
	snapshot := l.Snapshot()
	demands := demandsOf(snapshot.Observations...)
	for i := range snapshot.Reservations {
		for _, charge := range snapshot.Reservations[i].Charges {
			demands.add(charge, 1)
		}
	}
	snapshot.Slices, snapshot.Reservations = nil, nil
	snapshot.Observations = []ledger.Observation{{Kind: everything, Basis: ledger.Basis{Objects: 1}, Demands: demands.list()}}

	c, err := ledger.Restore(snapshot)
	if err != nil {
		return nil, fmt.Errorf("copy the ledger: %w", err)
	}
	c.SetTypes(l.Types())
	return c, nil
}

// demands are sums of demand. All of them together are within the bounds of an account.
type demands map[balance]ledger.Demand

type balance struct {
	resourceType string
	dimensions   ledger.Dimensions
}

func demandsOf(observations ...ledger.Observation) demands {
	sums := demands{}
	for _, o := range observations {
		for _, d := range o.Demands {
			sums.addDemand(d)
		}
	}
	return sums
}

func (d demands) addDemand(more ledger.Demand) {
	at := balance{more.ResourceType, more.Dimensions}
	more.Amount += d[at].Amount
	more.Objects += d[at].Objects
	d[at] = more
}

// have reports whether the demand may have these charges of an object.
func (d demands) have(charges []ledger.Charge) bool {
	return !slices.ContainsFunc(charges, func(c ledger.Charge) bool { return d[balance{c.ResourceType, c.Dimensions}].Amount < c.Amount })
}

// add adds the charge of an object, or takes it away with sign -1.
func (d demands) add(charge ledger.Charge, sign int64) {
	at := balance{charge.ResourceType, charge.Dimensions}
	amount := d[at].Amount + ledger.Amount(sign)*charge.Amount
	d[at] = ledger.Demand{ResourceType: charge.ResourceType, Dimensions: charge.Dimensions, Amount: amount, Objects: d[at].Objects + sign}
}

func (d demands) list() []ledger.Demand {
	var all []ledger.Demand
	for _, demand := range d {
		if demand.Amount > 0 {
			demand.Objects = max(1, demand.Objects)
			all = append(all, demand)
		}
	}
	return all
}

// nobody is an observer of a ledger without requests.
type nobody struct{}

// Visibility implements [ledger.Observer].
func (nobody) Visibility(*ledger.Reservation) ledger.Visibility { return ledger.Visibility{} }

// ChangesSince implements [ledger.Observer].
func (nobody) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) { return nil, false }
