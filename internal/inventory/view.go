package inventory

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// View is an inventory as of one moment. Use it only within the call of [Kind.View].
type View struct{ kind *Kind }

// View calls look with the inventory as it is now. Changes wait until it returns.
func (k *Kind) View(look func(View)) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	look(View{k})
}

// Observation is what the objects demand of a consumer.
func (v View) Observation(consumer quotav1alpha1.ConsumerRef) ledger.Observation {
	o := ledger.Observation{Kind: v.kind.name, Basis: v.kind.basis}
	for b, s := range v.kind.sums[consumer] {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: b.resourceType, Dimensions: b.dimensions, Amount: s.amount, Objects: s.objects})
	}
	return o
}

// Visibility is what is visible of the object of a pending request. Whether the request has ended is not known here.
func (v View) Visibility(pending *ledger.Reservation) ledger.Visibility {
	id := idOf(types.UID(pending.Awaits.ID))
	_, isDeleted := v.kind.deleted.Get(id)
	return ledger.Visibility{Version: v.kind.objects[id].version, IsDeleted: isDeleted}
}

// Holder is an object that demands something of a consumer.
type Holder struct {
	types.NamespacedName
	Charges []ledger.Charge
}

// Holders returns the objects that demand a resource type of a consumer, in the order of their names. It returns at
// most limit of them, and only those after a name.
func (v View) Holders(consumer quotav1alpha1.ConsumerRef, resourceType string, after types.NamespacedName, limit int) []Holder {
	var holders []Holder
	for _, o := range v.kind.objects {
		name := types.NamespacedName{Namespace: o.namespace, Name: o.name}
		if o.demand == nil || compareNames(name, after) <= 0 {
			continue
		}
		if charges := o.demand.of(consumer, resourceType); len(charges) > 0 {
			holders = append(holders, Holder{NamespacedName: name, Charges: charges})
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return compareNames(a.NamespacedName, b.NamespacedName) })
	return holders[:min(len(holders), limit)]
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// of returns the charges of one resource type to a consumer.
func (d *demand) of(consumer quotav1alpha1.ConsumerRef, resourceType string) []ledger.Charge {
	var charges []ledger.Charge
	for i := range d.parts {
		if d.parts[i].Consumer != consumer {
			continue
		}
		for _, c := range d.parts[i].Charges {
			if c.ResourceType == resourceType {
				charges = append(charges, c)
			}
		}
	}
	return charges
}
