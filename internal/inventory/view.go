package inventory

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// View is an inventory as of one moment, from the side of a consumer. Use it only within the call of [Kind.View]. It
// implements [ledger.Observer], but does not know when requests end.
type View struct {
	kind     *Kind
	consumer quotav1alpha1.ConsumerRef
}

var _ ledger.Observer = View{}

// View calls look with the inventory as it is now. Changes wait until it returns, and look must not call View. It
// reports false without a call if the inventory has no list yet.
func (k *Kind) View(consumer quotav1alpha1.ConsumerRef, look func(View)) (isListed bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.isListed {
		look(View{k, consumer})
	}
	return k.isListed
}

// Observation is what the objects demand of the consumer.
func (v View) Observation() ledger.Observation {
	o := ledger.Observation{Kind: v.kind.name, Basis: v.kind.basis}
	for b, s := range v.kind.sums[v.consumer] {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: b.resourceType, Dimensions: b.dimensions, Amount: s.amount.Amount(), Objects: s.objects})
	}
	return o
}

// Visibility implements [ledger.Observer].
func (v View) Visibility(pending *ledger.Reservation) ledger.Visibility {
	return v.kind.visibilityOf(types.UID(pending.Awaits.ID))
}

// VisibilityOf returns what the inventory knows about an object.
func (k *Kind) VisibilityOf(uid types.UID) ledger.Visibility {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.visibilityOf(uid)
}

func (c *contents) visibilityOf(uid types.UID) ledger.Visibility {
	id := idOf(uid)
	_, isDeleted := c.deleted.Get(id)
	return ledger.Visibility{Version: c.objects[id].version, IsDeleted: isDeleted}
}

// ChangesSince implements [ledger.Observer]. It reports false if the inventory no longer has all changes. It leaves out
// what a change of a namespace did to the demand of its objects.
//
// A ledger without an observation of the kind has an earlier basis of zero. Nothing is missing there if the changes of
// the inventory add up to the present demand: then the consumer had none before them.
func (v View) ChangesSince(earlier ledger.Basis) (all []ledger.ObjectChange, hasAll bool) {
	changes, hasAll := v.kind.log.after(earlier.Objects)
	if !hasAll && earlier.Objects != 0 {
		return nil, false
	}

	places := map[types.UID]int{}
	for c := range changes {
		differs := slices.Concat(negated(c.before.of(v.consumer)), c.after.of(v.consumer))
		if len(differs) == 0 {
			continue
		}

		place, isKnown := places[c.uid]
		if !isKnown {
			place = len(all)
			places[c.uid] = place
			name := types.NamespacedName{Namespace: c.namespace, Name: c.name}
			all = append(all, ledger.ObjectChange{Kind: c.kind, ID: string(c.uid), Subject: v.kind.subjectOf(name)})
		}

		o := &all[place]
		if c.kind == ledger.KindReleased {
			o.Kind = c.kind
		}
		o.Changes = append(o.Changes, differs...)
	}
	if !hasAll && !v.addsUp(all) {
		return nil, false
	}
	return all, true
}

// addsUp reports whether changes add up to the demand of the consumer.
func (v View) addsUp(changes []ledger.ObjectChange) bool {
	rest := map[balance]ledger.Total{}
	for b, s := range v.kind.sums[v.consumer] {
		rest[b] = s.amount
	}
	for i := range changes {
		for _, c := range changes[i].Changes {
			b := balance{c.ResourceType, c.Dimensions}
			if c.Amount < 0 {
				rest[b] = rest[b].Plus(-c.Amount)
			} else {
				rest[b] = rest[b].Minus(c.Amount)
			}
		}
	}
	for _, amount := range rest {
		if amount != (ledger.Total{}) {
			return false
		}
	}
	return true
}

func negated(charges []ledger.Charge) []ledger.Charge {
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Amount = -charges[i].Amount
	}
	return charges
}
