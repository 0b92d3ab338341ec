package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/test/history"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// model is the world's own knowledge of objects, claims and ledgers. It holds each revision to the invariants:
//
//   - The cost of objects and of granted claims of users is never more than the limit, nor more than the ledger's
//     used amounts, reservations and slices. So every existing object has a charge, at every moment.
//   - The total of the ledger is never more than the limit, unless the limit has shrunk; then it does not grow.
//   - The revisions of a ledger follow from each other ([history.Checker]).
//
// Where objects count, the ledger's observations are as package simulation says in checkObservations.
type model struct {
	*World

	mu      sync.Mutex
	objects map[types.UID]*corev1.ConfigMap
	claims  map[types.NamespacedName]*quotav1alpha1.ResourceClaim
	limits  map[quotav1alpha1.ConsumerRef]int64
	totals  map[quotav1alpha1.ConsumerRef]total
	ledgers map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger
	history *history.Checker
	// past has every version of every object, and pastClaims that of every claim, as pastByID has by the ID of the
	// inventory. grown has what nobody reviewed of the growth of objects.
	past       past[corev1.ConfigMap]
	pastClaims past[quotav1alpha1.ResourceClaim]
	pastByID   past[quotav1alpha1.ResourceClaim]
	moves      map[string][]move // by namespace
	// policy is the stored policy, and changed the time of its last change. factors are those it has had in effect.
	policy  *quotav1alpha1.ClaimCreationPolicy
	changed time.Time
	factors []factor
	grown   map[types.UID][]growth
	// asked are open requests, until a ledger has them, or until nobody can reserve for them. admitted has the largest
	// admitted growth of each object, by its key.
	asked    map[*asked]struct{}
	admitted map[objectKey]int64
	reviews  map[*review]struct{}
}

// total has the figures of a ledger. used includes observed demand.
type total struct{ limit, used, reserved, sliced int64 }

func (t total) taken() int64 { return t.used + t.reserved }

func newModel(w *World) *model {
	return &model{
		World: w, objects: map[types.UID]*corev1.ConfigMap{}, claims: map[types.NamespacedName]*quotav1alpha1.ResourceClaim{},
		limits: map[quotav1alpha1.ConsumerRef]int64{}, totals: map[quotav1alpha1.ConsumerRef]total{},
		ledgers: map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger{}, history: history.NewChecker(),
		past: past[corev1.ConfigMap]{}, pastClaims: past[quotav1alpha1.ResourceClaim]{}, pastByID: past[quotav1alpha1.ResourceClaim]{}, moves: map[string][]move{}, grown: map[types.UID][]growth{}, asked: map[*asked]struct{}{}, admitted: map[objectKey]int64{}, reviews: map[*review]struct{}{},
	}
}

// Stored implements [controlplane.Observer].
func (m *model) Stored(r *controlplane.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.Resource {
	case "configmaps":
		object := decoded[corev1.ConfigMap](r)
		m.note("%s map %s (%s) for %s, version %d", r.Event, object.Name, object.UID, object.Data["n"], r.Version)
		m.noteGrowth(r, object)
		m.past.add(r, object.UID, object)
		if r.Event == watch.Deleted {
			delete(m.objects, object.UID)
		} else {
			m.objects[object.UID] = object
		}
		m.checkLocked(m.payerOf(object))
	case "namespaces":
		m.noteMove(r)
	case "claimcreationpolicies":
		m.notePolicy(r)
	case "resourceclaims":
		claim := decoded[quotav1alpha1.ResourceClaim](r)
		m.note("%s claim %s/%s (%s) for %d, granted %t", r.Event, claim.Namespace, claim.Name, claim.UID, amountOf(claim), isGranted(claim))
		m.pastClaims.add(r, claim.UID, claim)
		m.pastByID.add(r, types.UID(claims.IDOf(claimcache.Compact(claim))), claim)
		name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		if r.Event == watch.Deleted {
			delete(m.claims, name)
		} else {
			m.claims[name] = claim
		}
		m.checkLocked(claim.Spec.ConsumerRef)
	case "consumerledgers":
		m.storedLedgerLocked(r)
	}
}

// decoded returns the object of a revision.
func decoded[T any](r *controlplane.Revision) *T {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Content, object); err != nil {
		panic(err)
	}
	return object
}

func (m *model) storedLedgerLocked(r *controlplane.Revision) {
	stored := decoded[quotav1alpha1.ConsumerLedger](r)
	of := stored.Spec.ConsumerRef
	snapshot, err := ledgerstore.SnapshotOf(&stored.Spec)
	if err != nil {
		m.violate("version %d of the ledger of %s: %v", r.Version, of.Name, err)
		return
	}
	restored, err := ledger.Restore(snapshot)
	if err != nil {
		m.violate("version %d of the ledger of %s: %v", r.Version, of.Name, err)
		return
	}
	account := restored.Account(resourceType)
	before, now := m.totals[of], total{
		int64(account.Limit), int64(account.Used), int64(account.Reserved), int64(restored.Sliced(resourceType)),
	}
	m.note("ledger of %s: %+v, sequence %d, slices %+v", of.Name, now, snapshot.Sequence, snapshot.Slices)
	m.checkObservations(r.Version, m.ledgers[of], stored)
	m.totals[of], m.ledgers[of] = now, stored
	m.forgetReserved(&stored.Spec)
	if m.isBeyond(before, now) {
		m.violate("version %d of the ledger of %s has %+v, and had %+v before", r.Version, of.Name, now, before)
	}
	if m.hasHistory() {
		m.history.Ledger(r.Version, stored)
		for _, violation := range m.history.Violations {
			m.violate("%s", violation)
		}
		m.history.Violations = nil
	}
	m.checkLocked(of)
}

// isBeyond reports whether a ledger has admitted something beyond the limit. Observed demand may grow beyond it without
// an admission, also by the claim of a process that stood still. And an object that counts may be in the slice of
// another process, too, until that has recorded its admission.
func (m *model) isBeyond(before, now total) bool {
	switch {
	case !m.shape.countsObjects(), !m.shape.isSteady():
		return now.taken()+now.sliced > now.limit && now.reserved+now.sliced > before.reserved+before.sliced
	default:
		return now.taken() > now.limit && now.taken() > before.taken()
	}
}

// hasHistory reports whether [history.Checker] understands everything in this world.
func (m *model) hasHistory() bool {
	return !m.shape.countsObjects() && !m.shape.hasDirect && !m.shape.changesLimits
}

// checkLocked checks the invariants of a consumer at every moment.
func (m *model) checkLocked(of quotav1alpha1.ConsumerRef) {
	demand, now := m.demandLocked(of), m.totals[of]
	if demand > m.limits[of] && !m.shape.changesLimits && m.shape.isSteady() {
		m.violate("objects and claims of %s cost %d, and the limit is %d", of.Name, demand, m.limits[of])
	}
	if demand -= m.uncovered(of); demand > now.taken()+now.sliced {
		m.violate("objects and claims of %s cost %d, and the ledger has only %+v", of.Name, demand, now)
	}
	for r := range m.reviews {
		if r.consumer == of {
			m.follow(r)
		}
	}
}

// demandLocked returns the cost of the objects and of the granted claims of users.
func (m *model) demandLocked(of quotav1alpha1.ConsumerRef) (demand int64) {
	for _, object := range m.objects {
		if m.payerOf(object) == of {
			demand += m.costNow(object)
		}
	}
	for _, claim := range m.claims {
		if claim.Spec.ConsumerRef == of && isDirect(claim) && isGranted(claim) && claim.DeletionTimestamp == nil {
			demand += amountOf(claim)
		}
	}
	return demand
}

func (m *model) demandOf(of quotav1alpha1.ConsumerRef) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.demandLocked(of)
}

func (m *model) limitOf(of quotav1alpha1.ConsumerRef) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals[of].limit
}

func (m *model) totalOf(of quotav1alpha1.ConsumerRef) total {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals[of]
}

// existing returns the existing objects, in the order of their UIDs.
func (m *model) existing() (existing []*corev1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(m.objects)) {
		existing = append(existing, m.objects[uid])
	}
	return existing
}

// liveClaims returns the claims that pay for objects, and those that users made, without the standing ones. Each are in
// the order of their names.
func (m *model) liveClaims() (paying, made []*quotav1alpha1.ResourceClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, claim := range m.claims {
		switch {
		case claim.DeletionTimestamp != nil || claim.Name == "standing":
		case isDirect(claim):
			made = append(made, claim)
		default:
			paying = append(paying, claim)
		}
	}
	slices.SortFunc(paying, compareNames)
	slices.SortFunc(made, compareNames)
	return paying, made
}

func compareNames(a, b *quotav1alpha1.ResourceClaim) int {
	if a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name {
		return -1
	}
	return 1
}

// agreement returns nil if objects, claims and ledgers agree, and nothing is in flight.
func (m *model) agreement() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, err := m.heldByClaims()
	if err != nil {
		return err
	}
	if m.shape.countsObjects() {
		for _, object := range m.objects {
			held[m.payerOf(object)] += m.costNow(object)
		}
	}
	for _, claim := range m.claims {
		if !isGranted(claim) && !isWaiting(claim) {
			return fmt.Errorf("claim %s is undecided", claim.Name)
		}
		if of := claim.Spec.ConsumerRef; !isGranted(claim) && held[of]+amountOf(claim) <= m.totals[of].limit {
			return fmt.Errorf("claim %s waits although it fits", claim.Name)
		}
	}
	for of, stored := range m.ledgers {
		s := &stored.Spec
		if len(s.Reservations)+len(s.Slices) > 0 || m.totals[of].used != held[of] {
			return fmt.Errorf("the ledger of %s has %+v, claims and objects hold %d, in flight are %+v, %+v", of.Name, m.totals[of], held[of], s.Reservations, s.Slices)
		}
	}
	return nil
}

// heldByClaims returns what claims of record hold. It fails unless each object has exactly the claim that it is to
// have.
func (m *model) heldByClaims() (held map[quotav1alpha1.ConsumerRef]int64, err error) {
	unpaid := map[types.UID]*corev1.ConfigMap{}
	if m.shape.mode != counted {
		unpaid = maps.Clone(m.objects)
		maps.DeleteFunc(unpaid, func(_ types.UID, object *corev1.ConfigMap) bool { return costOf(object) == 0 })
	}
	held = map[quotav1alpha1.ConsumerRef]int64{}
	for _, claim := range m.claims {
		if isDirect(claim) && claim.DeletionTimestamp != nil || !isDirect(claim) && !isGranted(claim) {
			return nil, fmt.Errorf("claim %s is deleted or not granted", claim.Name)
		}
		if !isDirect(claim) {
			uid := types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
			object := unpaid[uid]
			if object == nil || m.costNow(object) != amountOf(claim) {
				return nil, fmt.Errorf("claim %s of object %s for %d is a second one, or its object is gone or costs something else", claim.Name, uid, amountOf(claim))
			}
			delete(unpaid, uid)
		}
		if isGranted(claim) && (isDirect(claim) || m.shape.mode == ofRecord) {
			held[claim.Spec.ConsumerRef] += amountOf(claim)
		}
	}
	for uid := range unpaid {
		return nil, fmt.Errorf("object %s and %d others have no claim", uid, len(unpaid)-1)
	}
	return held, nil
}

// storedLedgers returns the ledgers in storage.
func (m *model) storedLedgers() map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.ledgers)
}

func costOf(object *corev1.ConfigMap) int64 {
	cost, _ := strconv.ParseInt(object.Data["n"], 10, 64)
	return cost
}

func amountOf(claim *quotav1alpha1.ResourceClaim) (amount int64) {
	for _, request := range claim.Spec.Requests {
		amount += request.Amount
	}
	return amount
}

func isDirect(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Annotations[quotav1alpha1.AnnotationResourceUID] == ""
}

// isHeld reports whether a claim counts: one of record that was not released and, if a user made it, granted.
func isHeld(claim *quotav1alpha1.ResourceClaim) bool {
	isReleased := claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0
	return !claims.IsView(claim) && !isReleased && (isGranted(claim) || !isDirect(claim))
}

func isGranted(claim *quotav1alpha1.ResourceClaim) bool {
	return apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
}

// isWaiting reports whether, by its status, a claim does not fit.
func isWaiting(claim *quotav1alpha1.ResourceClaim) bool {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	return granted != nil && granted.Reason == quotav1alpha1.ReasonQuotaExceeded
}
