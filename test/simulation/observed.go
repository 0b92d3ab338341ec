package simulation

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// past has every version of every object of one kind, in their order.
type past[T any] map[types.UID][]version[T]

// version is an object as of a version, or nil once it is deleted.
type version[T any] struct {
	at     int64
	object *T
}

func (p past[T]) add(r *controlplane.Revision, uid types.UID, object *T) {
	if r.Event == watch.Deleted {
		object = nil
	}
	p[uid] = append(p[uid], version[T]{r.Version, object})
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
func (p past[T]) existed(uid types.UID) bool { return len(p[uid]) > 0 }

// at returns an object as of a version, and its own version. It is nil if there was none.
func (p past[T]) at(uid types.UID, at int64) (object *T, own int64) {
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
	m.checkClaimsObserved(at, before, stored)
	if !m.shape.countsObjects() {
		return
	}

	observed := observationIn(stored)
	least, most := m.demandAt(stored.Spec.ConsumerRef, &observed)
	m.checkObservation(at, observationIn(before), observed, stored, least, most)
	checkPending(m, at, before, stored, observed.Kind, m.past)
}

// checkClaimsObserved checks the same for claims of record. Of two claims of one object, the oldest counts.
func (m *model) checkClaimsObserved(at int64, before, stored *quotav1alpha1.ConsumerLedger) {
	observed := observedClaimsIn(stored)
	var exact cost
	for _, claim := range m.claimsAt(observed.ObjectsVersion) {
		if claim.Spec.ConsumerRef == stored.Spec.ConsumerRef && isHeld(claim) {
			exact.cost += amountOf(claim)
			exact.objects++
		}
	}
	m.checkObservation(at, observedClaimsIn(before), observed, stored, exact, exact)
	checkPending(m, at, before, stored, inventory.Claims, m.pastByID)
}

// claimsAt returns the claims of record as of a version, by their IDs.
func (m *model) claimsAt(version int64) map[string]*quotav1alpha1.ResourceClaim {
	byID := map[string]*quotav1alpha1.ResourceClaim{}
	for uid := range m.pastClaims {
		claim, _ := m.pastClaims.at(uid, version)
		if claim == nil || claims.IsView(claim) {
			continue
		}
		id := claims.IDOf(claimcache.Compact(claim))
		if twin := byID[id]; twin == nil || isOlder(claim, twin) {
			byID[id] = claim
		}
	}
	return byID
}

func isOlder(a, b *quotav1alpha1.ResourceClaim) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return compareNames(a, b) < 0
}

// checkObservation checks that an observation does not move back, and has what there was.
func (m *model) checkObservation(at int64, was, observed quotav1alpha1.LedgerObservation, stored *quotav1alpha1.ConsumerLedger, least, most cost) {
	of := stored.Spec.ConsumerRef
	if was.ObjectsVersion > observed.ObjectsVersion || was.PoliciesVersion > observed.PoliciesVersion || was.NamespacesVersion > observed.NamespacesVersion {
		m.violate("version %d of the ledger of %s moves back from %+v to %+v", at, of.Name, was, observed)
	}
	var all cost
	for _, d := range observed.Demands {
		all.cost += d.Amount
		all.objects += d.Objects
	}
	if observed.Kind != "" && (all.cost < least.cost || all.cost > most.cost || all.objects < least.objects || all.objects > most.objects) {
		m.violate("version %d of the ledger of %s has observed %+v, and as of that version there was %+v to %+v", at, of.Name, observed, least, most)
	}
}

// checkPending checks that the observation of a kind does not have the object of a pending request.
func checkPending[T any](m *model, at int64, before, stored *quotav1alpha1.ConsumerLedger, kind string, past past[T]) {
	observed, was := observationOf(stored, kind), observationOf(before, kind)
	for _, r := range stored.Spec.Reservations {
		// A review may decide on a change of an earlier version, which the API server refuses. And two replicas may decide
		// on one request: the later one may have yet to see what the ledger has observed of the object. Whoever observes
		// next ends it.
		mayBeLate := !isReservedIn(before, r.Sequence) || was.ObjectsVersion == observed.ObjectsVersion
		if r.Awaits == nil || r.Awaits.Kind != kind || mayBeLate {
			continue
		}

		// Without a list or an event that showed the object, nobody can know that it has come and gone.
		object, own := past.at(types.UID(r.Awaits.ID), observed.ObjectsVersion)
		isEarly := r.Awaits.Namespaces > observed.NamespacesVersion || r.Awaits.Policies > observed.PoliciesVersion
		if object != nil && own > r.Awaits.After && !isEarly {
			m.violate("version %d of the ledger of %s counts %s twice: version %d of its object is in %+v", at, stored.Spec.ConsumerRef.Name, r.Key, own, observed)
		}
	}
}

func isReservedIn(stored *quotav1alpha1.ConsumerLedger, sequence int64) bool {
	return stored != nil && slices.ContainsFunc(stored.Spec.Reservations, func(r quotav1alpha1.LedgerReservation) bool { return r.Sequence == sequence })
}

// observationOf returns what a ledger has observed of a kind. The ledger may be nil.
func observationOf(stored *quotav1alpha1.ConsumerLedger, kind string) quotav1alpha1.LedgerObservation {
	if stored != nil {
		for _, o := range stored.Spec.Observations {
			if o.Kind == kind {
				return o
			}
		}
	}
	return quotav1alpha1.LedgerObservation{}
}

// observationIn returns what a ledger has observed of ConfigMaps, and observedClaimsIn of the claims of users.
func observationIn(stored *quotav1alpha1.ConsumerLedger) quotav1alpha1.LedgerObservation {
	return observationOf(stored, "v1/ConfigMap")
}

func observedClaimsIn(stored *quotav1alpha1.ConsumerLedger) quotav1alpha1.LedgerObservation {
	return observationOf(stored, inventory.Claims)
}

func costOfCharges(charges []quotav1alpha1.LedgerCharge) (cost int64) {
	for _, c := range charges {
		cost += c.Amount
	}
	return cost
}
