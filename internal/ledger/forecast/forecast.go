// Package forecast decides what changes of objects would come to, without making them: on copies of ledgers, in order,
// and by the decisions of package ledger. Nothing that it does reaches a ledger in storage.
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

// Ledgers are the ledgers that a forecast begins with.
type Ledgers interface {
	// Ledger returns the ledger of a consumer as of now. The caller may change it.
	Ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error)
}

// Forecast decides changes on copies of ledgers. It is not safe for concurrent use.
type Forecast struct {
	Ledgers Ledgers

	ledgers map[quotav1alpha1.ConsumerRef]*ledger.Ledger
	keys    int
}

// Ledger returns the ledger of a consumer after the changes that were decided so far. The caller must not change it.
func (f *Forecast) Ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	if l := f.ledgers[consumer]; l != nil {
		return l, nil
	}
	l, err := f.Ledgers.Ledger(ctx, consumer)
	if err != nil {
		return nil, fmt.Errorf("read the ledger of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	if f.ledgers == nil {
		f.ledgers = map[quotav1alpha1.ConsumerRef]*ledger.Ledger{}
	}
	f.ledgers[consumer] = l
	return l, nil
}

// Decide decides the changes of objects, object by object. Either all changes of an object are made, or none. What
// objects free is there for all others of the set, unless surge is set: then everything else is decided while they still
// have it. It returns a decision for each change.
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
	return decisions, decide(surge)
}

func areReductions(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return !c.isReduction() })
}

// prepared is a change that its ledger has admitted.
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
	isAdmitted := true
	for i := range changes {
		l, err := f.Ledger(ctx, changes[i].Consumer)
		if err != nil {
			return nil, err
		}
		f.keys++
		p := prepared{Ledger: l, key: "forecast:" + strconv.Itoa(f.keys), after: changes[i].After, amends: len(changes[i].Before) > 0}
		decisions[i] = p.prepare(&changes[i])
		if decisions[i].Code == ledger.Admitted {
			all = append(all, p)
		} else {
			isAdmitted = false
		}
	}
	for _, p := range all {
		if isAdmitted {
			p.settle()
		} else {
			p.Cancel(p.key, 0)
		}
	}
	return decisions, nil
}

func (p *prepared) prepare(c *Change) ledger.Decision {
	r := ledger.Reservation{Key: p.key, Charges: c.After, Replaces: c.Before}
	switch {
	case p.amends && c.Overdraft:
		return p.AmendOverdraft(r)
	case p.amends:
		return p.Amend(r)
	case c.Overdraft:
		return p.ReserveOverdraft(r)
	default:
		return p.Reserve(r)
	}
}

func (p *prepared) settle() {
	if p.amends {
		p.SettleAmendment(p.key, 0, p.after)
	} else {
		p.Settle(p.key, 0)
	}
}

// Copy returns a copy of a ledger in which all new reservations are settled, and nothing is in slices.
func Copy(l *ledger.Ledger) (*ledger.Ledger, error) {
	snapshot := l.Snapshot()
	snapshot.Slices = nil
	c, err := ledger.Restore(snapshot)
	if err != nil {
		return nil, err
	}
	for _, r := range snapshot.Reservations {
		if len(r.Replaces) == 0 {
			c.Settle(r.Key, 0)
		}
	}
	return c, nil
}
