package simulation

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// past has every version of every object, in their order.
type past map[types.UID][]version

// version is an object as of a version, or nil once it is deleted.
type version struct {
	at     int64
	object *corev1.ConfigMap
}

func (p past) add(r *controlplane.Revision, object *corev1.ConfigMap) {
	if r.Event == watch.Deleted {
		p[object.UID] = append(p[object.UID], version{r.Version, nil})
		return
	}
	p[object.UID] = append(p[object.UID], version{r.Version, object})
}

// growth is by how much an object grew at a version without a review of that.
type growth struct{ at, amount int64 }

func versionOf(object *corev1.ConfigMap) int64 {
	version, _ := strconv.ParseInt(object.ResourceVersion, 10, 64)
	return version
}

// noteGrowth notes by how much an object has grown without a review. It begins with nothing.
func (m *model) noteGrowth(r *controlplane.Revision, object *corev1.ConfigMap) {
	if r.Event == watch.Deleted {
		return
	}
	grown, key := costOf(object), objectKey{uid: object.UID}
	if before := m.objects[object.UID]; before != nil {
		grown, key.after = grown-costOf(before), versionOf(before)
	}
	if grown > m.admitted[key] {
		m.grown[object.UID] = append(m.grown[object.UID], growth{r.Version, grown})
	}
}

// uncovered returns what the objects of a consumer demand for which its ledger need not have a charge yet. That is what
// they have grown without a review, until the ledger has observed it. And it is everything for a while after the
// namespace has moved or the policy has changed.
func (m *model) uncovered(of quotav1alpha1.ConsumerRef) (uncovered int64) {
	observed := observationIn(m.ledgers[of])
	for uid, object := range m.objects {
		grown := int64(0)
		for _, g := range m.grown[uid] {
			if g.at > observed.ObjectsVersion {
				grown += g.amount
			}
		}
		switch {
		case m.payerOf(object) != of:
		case !m.isAtRest(object.Namespace):
			uncovered += m.costNow(object)
		default:
			uncovered += min(grown*m.factor(), m.costNow(object))
		}
	}
	return uncovered
}

// existed reports whether an object has ever existed.
func (p past) existed(uid types.UID) bool { return len(p[uid]) > 0 }

// at returns an object as of a version, and its own version. It is nil if there was none.
func (p past) at(uid types.UID, at int64) (object *corev1.ConfigMap, own int64) {
	for _, v := range p[uid] {
		if v.at > at {
			break
		}
		object, own = v.object, v.at
	}
	return object, own
}

// checkObservations checks what a stored ledger says of the objects that exist:
//
//   - An observation is exact: it has what the objects demand as of its version. A list of objects may rest on later
//     namespaces and policies than it says.
//   - It never moves back.
//   - Every admitted request counts once: an observation that has its object ends it.
func (m *model) checkObservations(at int64, before, stored *quotav1alpha1.ConsumerLedger) {
	of := stored.Spec.ConsumerRef
	observed := observationIn(stored)
	if was := observationIn(before); was.ObjectsVersion > observed.ObjectsVersion || was.PoliciesVersion > observed.PoliciesVersion ||
		was.NamespacesVersion > observed.NamespacesVersion {
		m.violate("version %d of the ledger of %s moves back from %+v to %+v", at, of.Name, was, observed)
	}

	least, most := m.demandAt(of, &observed)
	amount, objects := int64(0), int64(0)
	for _, d := range observed.Demands {
		amount += d.Amount
		objects += d.Objects
	}
	if observed.Kind != "" && (amount < least.cost || amount > most.cost || objects < least.objects || objects > most.objects) {
		m.violate("version %d of the ledger of %s has observed %+v, and as of that version there was %+v to %+v", at, of.Name, observed, least, most)
	}

	for _, r := range stored.Spec.Reservations {
		// A review may decide on a change of an earlier version, which the API server refuses. And two replicas may decide
		// on one request: the later one may have yet to see what the ledger has observed of the object. Whoever observes
		// next ends it.
		mayBeLate := !isReservedIn(before, r.Sequence) || observationIn(before).ObjectsVersion == observed.ObjectsVersion
		if r.Awaits != nil && !mayBeLate {
			m.checkPending(at, of, observed, &r)
		}
	}
}

// checkPending checks that the observation of a ledger does not have the object of a pending request.
func (m *model) checkPending(at int64, of quotav1alpha1.ConsumerRef, observed quotav1alpha1.LedgerObservation, r *quotav1alpha1.LedgerReservation) {
	// Without a list or an event that showed the object, nobody can know that it has come and gone.
	object, own := m.past.at(types.UID(r.Awaits.ID), observed.ObjectsVersion)
	isEarly := r.Awaits.Namespaces > observed.NamespacesVersion || r.Awaits.Policies > observed.PoliciesVersion
	if object != nil && own > r.Awaits.After && !isEarly {
		m.violate("version %d of the ledger of %s counts %s twice: version %d of its object is in %+v", at, of.Name, r.Key, own, observed)
	}
}

func isReservedIn(stored *quotav1alpha1.ConsumerLedger, sequence int64) bool {
	return stored != nil && slices.ContainsFunc(stored.Spec.Reservations, func(r quotav1alpha1.LedgerReservation) bool { return r.Sequence == sequence })
}

// observationIn returns what a ledger has observed of ConfigMaps. The ledger may be nil.
func observationIn(stored *quotav1alpha1.ConsumerLedger) quotav1alpha1.LedgerObservation {
	if stored != nil && len(stored.Spec.Observations) > 0 {
		return stored.Spec.Observations[0] // there is one kind
	}
	return quotav1alpha1.LedgerObservation{}
}

// claimedIn returns what claims of record use and reserve in a ledger.
func claimedIn(spec *quotav1alpha1.ConsumerLedgerSpec) (claimed int64) {
	for _, used := range spec.Used {
		claimed += used.Amount
	}
	for _, r := range spec.Reservations {
		if r.Awaits == nil {
			claimed += costOfCharges(r.Charges)
		}
	}
	return claimed
}

func costOfCharges(charges []quotav1alpha1.LedgerCharge) (cost int64) {
	for _, c := range charges {
		cost += c.Amount
	}
	return cost
}
