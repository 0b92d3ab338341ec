package inventory

import (
	"cmp"
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
func (v View) ChangesSince(earlier ledger.Basis) (all []ledger.ObjectChange, hasAll bool) {
	changes, hasAll := v.kind.log.after(earlier.Objects)
	if !hasAll {
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
	return all, true
}

func negated(charges []ledger.Charge) []ledger.Charge {
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Amount = -charges[i].Amount
	}
	return charges
}

// Holder is an object that demands something of a consumer.
type Holder struct {
	types.NamespacedName
	Charges []ledger.Charge
}

// Holders returns the objects that demand a resource type of the consumer, in the order of their names. It returns at
// most limit of them, and only those after a name.
func (v View) Holders(resourceType string, after types.NamespacedName, limit int) []Holder {
	isOther := func(c ledger.Charge) bool { return c.ResourceType != resourceType }
	var holders []Holder
	for _, o := range v.kind.objects {
		name := types.NamespacedName{Namespace: o.namespace, Name: o.name}
		if compareNames(name, after) <= 0 {
			continue
		}
		if charges := slices.DeleteFunc(slices.Clone(o.demand.of(v.consumer)), isOther); len(charges) > 0 {
			holders = append(holders, Holder{NamespacedName: name, Charges: charges})
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return compareNames(a.NamespacedName, b.NamespacedName) })
	return holders[:min(len(holders), max(0, limit))]
}

// Largest returns the objects that demand most of a resource type of the consumer, the largest first and at most limit
// of them, among those in a namespace, or in all if it is empty.
func (v View) Largest(resourceType, namespace string, limit int) []Holder {
	var largest []Holder
	for _, o := range v.kind.objects {
		if namespace != "" && o.namespace != namespace {
			continue
		}
		held := Holder{NamespacedName: types.NamespacedName{Namespace: o.namespace, Name: o.name}, Charges: o.demand.of(v.consumer)}
		if held.Amount(resourceType) == 0 {
			continue
		}
		largest = append(largest, held)
		slices.SortFunc(largest, func(a, b Holder) int {
			return cmp.Or(cmp.Compare(b.Amount(resourceType), a.Amount(resourceType)), compareNames(a.NamespacedName, b.NamespacedName))
		})
		largest = largest[:min(len(largest), max(0, limit))]
	}
	return largest
}

// Amount returns what the object demands of a resource type, over all dimensions.
func (h Holder) Amount(resourceType string) (sum ledger.Amount) {
	for _, c := range h.Charges {
		if c.ResourceType == resourceType {
			sum = sum.AddUpTo(c.Amount)
		}
	}
	return sum
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
