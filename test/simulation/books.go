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
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/test/history"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// books are the world's own knowledge of objects, claims and ledgers. It holds each revision to the invariants:
//
//   - The cost of objects and of granted claims of users is never more than the limit, nor more than the ledger's
//     used amounts, reservations and slices. So every existing object has a charge, at every moment.
//   - The total of the ledger is never more than the limit, unless the limit has shrunk; then it does not grow.
//   - The revisions of a ledger follow from each other ([history.Checker]).
type books struct {
	*World

	mu      sync.Mutex
	objects map[types.UID]*corev1.ConfigMap
	claims  map[types.NamespacedName]*quotav1alpha1.ResourceClaim
	limits  map[quotav1alpha1.ConsumerRef]int64
	totals  map[quotav1alpha1.ConsumerRef]total
	ledgers map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger
	history *history.Checker
	// asked are the objects of open requests, until a ledger has them, or until nobody can reserve for them.
	asked   map[types.UID]asked
	reviews map[*review]struct{}
}

// total has the figures of a ledger.
type total struct{ limit, used, reserved, sliced int64 }

func (t total) taken() int64 { return t.used + t.reserved }

// asked is an object of a request. until is the time after which nobody reserves for it; zero after its admission.
type asked struct {
	*corev1.ConfigMap
	until time.Time
}

// review is an open request of a user, with the most that the ledger may have taken meanwhile.
type review struct {
	uid      types.UID
	consumer quotav1alpha1.ConsumerRef
	most     int64
	limit    int64
}

func newBooks(w *World) *books {
	return &books{
		World: w, objects: map[types.UID]*corev1.ConfigMap{}, claims: map[types.NamespacedName]*quotav1alpha1.ResourceClaim{},
		limits: map[quotav1alpha1.ConsumerRef]int64{}, totals: map[quotav1alpha1.ConsumerRef]total{},
		ledgers: map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger{}, history: history.NewChecker(),
		asked: map[types.UID]asked{}, reviews: map[*review]struct{}{},
	}
}

// Stored implements [controlplane.Observer].
func (b *books) Stored(r *controlplane.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Resource {
	case "configmaps":
		object := decoded[corev1.ConfigMap](r)
		b.note("%s map %s (%s) for %s", r.Event, object.Name, object.UID, object.Data["n"])
		if r.Event == watch.Deleted {
			delete(b.objects, object.UID)
		} else {
			b.objects[object.UID] = object
		}
		b.checkLocked(consumerOf(object))
	case "resourceclaims":
		claim := decoded[quotav1alpha1.ResourceClaim](r)
		b.note("%s claim %s (%s) for %d, granted %t, sequence %s", r.Event, claim.Name, claim.UID, amountOf(claim), isGranted(claim), claim.Annotations[quotav1alpha1.AnnotationReservation])
		name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		if r.Event == watch.Deleted {
			delete(b.claims, name)
		} else {
			b.claims[name] = claim
		}
		b.history.Claim(claim)
		b.checkLocked(claim.Spec.ConsumerRef)
	case "consumerledgers":
		b.storedLedgerLocked(r)
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

func (b *books) storedLedgerLocked(r *controlplane.Revision) {
	stored := decoded[quotav1alpha1.ConsumerLedger](r)
	of := stored.Spec.ConsumerRef
	snapshot, err := ledgerstore.SnapshotOf(&stored.Spec)
	if err != nil {
		b.violate("version %d of the ledger of %s: %v", r.Version, of.Name, err)
		return
	}
	restored, err := ledger.Restore(snapshot)
	if err != nil {
		b.violate("version %d of the ledger of %s: %v", r.Version, of.Name, err)
		return
	}
	account := restored.Account(resourceType)
	before, now := b.totals[of], total{int64(account.Limit), int64(account.Used), int64(account.Reserved), int64(restored.Sliced(resourceType))}
	b.totals[of], b.ledgers[of] = now, stored
	b.note("ledger of %s: %+v, sequence %d, slices %+v", of.Name, now, snapshot.Sequence, snapshot.Slices)
	for _, reservation := range stored.Spec.Reservations {
		delete(b.asked, types.UID(ledgerstore.ObjectUID(reservation.Key)))
	}
	if all := now.taken() + now.sliced; all > now.limit && all > before.taken()+before.sliced {
		b.violate("version %d of the ledger of %s has %+v, and had %+v before", r.Version, of.Name, now, before)
	}
	if b.hasHistory() {
		b.history.Ledger(r.Version, stored)
		for _, violation := range b.history.Violations {
			b.violate("%s", violation)
		}
		b.history.Violations = nil
	}
	b.checkLocked(of)
}

// hasHistory reports whether [history.Checker] understands everything in this world.
func (b *books) hasHistory() bool {
	return !b.shape.hasUpdates && !b.shape.hasDirect && !b.shape.changesLimits
}

// checkLocked checks the invariants of a consumer at every moment.
func (b *books) checkLocked(of quotav1alpha1.ConsumerRef) {
	demand, now := b.demandLocked(of), b.totals[of]
	if demand > b.limits[of] && !b.shape.changesLimits {
		b.violate("objects and claims of %s cost %d, and the limit is %d", of.Name, demand, b.limits[of])
	}
	if demand > now.taken()+now.sliced {
		b.violate("objects and claims of %s cost %d, and the ledger has only %+v", of.Name, demand, now)
	}
	taken := now.taken()
	for _, a := range b.asked {
		if consumerOf(a.ConfigMap) == of && (a.until.IsZero() || time.Now().Before(a.until)) {
			taken += costOf(a.ConfigMap)
		}
	}
	for r := range b.reviews {
		if r.consumer != of {
			continue
		}
		others := taken
		if own, isAsked := b.asked[r.uid]; isAsked {
			others -= costOf(own.ConfigMap)
		}
		r.most, r.limit = max(r.most, others), min(r.limit, now.limit)
	}
}

// demandLocked returns the cost of the objects and of the granted claims of users.
func (b *books) demandLocked(of quotav1alpha1.ConsumerRef) (demand int64) {
	for _, object := range b.objects {
		if consumerOf(object) == of {
			demand += costOf(object)
		}
	}
	for _, claim := range b.claims {
		if claim.Spec.ConsumerRef == of && isDirect(claim) && isGranted(claim) && claim.DeletionTimestamp == nil {
			demand += amountOf(claim)
		}
	}
	return demand
}

func (b *books) demandOf(of quotav1alpha1.ConsumerRef) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.demandLocked(of)
}

func (b *books) limitOf(of quotav1alpha1.ConsumerRef) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals[of].limit
}

func (b *books) totalOf(of quotav1alpha1.ConsumerRef) total {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals[of]
}

// ask records a user's request for an object. From now on the ledger may charge it, unless the request is a dry run.
func (b *books) ask(object *corev1.ConfigMap, isDryRun bool) *review {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &review{uid: object.UID, consumer: consumerOf(object), limit: b.totals[consumerOf(object)].limit}
	b.reviews[r] = struct{}{}
	if !isDryRun {
		b.asked[object.UID] = asked{object, time.Now().Add(webhookTimeout + b.shape.stall + lateMax + requestTimeout)}
	}
	b.checkLocked(r.consumer)
	return r
}

// answered records the answer to a review. A denial must be true.
func (b *books) answered(r *review, object *corev1.ConfigMap, isAdmitted, isRefused bool, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reviews, r)
	if own, isAsked := b.asked[object.UID]; isAsked && isAdmitted {
		b.asked[object.UID] = asked{own.ConfigMap, time.Time{}}
	}
	if !isRefused {
		return
	}
	delete(b.asked, object.UID)
	if r.most+costOf(object) <= r.limit {
		b.violate("map %s for %d is refused, and at most %d of %d were taken: %s", object.Name, costOf(object), r.most, r.limit, message)
	}
}

// existing returns the existing objects, in the order of their UIDs.
func (b *books) existing() (existing []*corev1.ConfigMap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(b.objects)) {
		existing = append(existing, b.objects[uid])
	}
	return existing
}

// liveClaims returns the claims that pay for objects, and those that users made, without the standing ones. Each are in
// the order of their names.
func (b *books) liveClaims() (paying, made []*quotav1alpha1.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, claim := range b.claims {
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
func (b *books) agreement() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	unpaid, held := maps.Clone(b.objects), map[quotav1alpha1.ConsumerRef]int64{}
	for _, claim := range b.claims {
		if isDirect(claim) && claim.DeletionTimestamp != nil || !isDirect(claim) && !isGranted(claim) {
			return fmt.Errorf("claim %s is deleted or not granted", claim.Name)
		}
		if !isDirect(claim) {
			uid := types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
			object := unpaid[uid]
			if object == nil || costOf(object) != amountOf(claim) {
				return fmt.Errorf("claim %s of object %s for %d is a second one, or its object is gone or costs something else", claim.Name, uid, amountOf(claim))
			}
			delete(unpaid, uid)
		}
		if isGranted(claim) {
			held[claim.Spec.ConsumerRef] += amountOf(claim)
		}
	}
	for uid := range unpaid {
		return fmt.Errorf("object %s and %d others have no claim", uid, len(unpaid)-1)
	}
	for _, claim := range b.claims {
		if !isGranted(claim) && !isWaiting(claim) {
			return fmt.Errorf("claim %s is undecided", claim.Name)
		}
		if of := claim.Spec.ConsumerRef; !isGranted(claim) && held[of]+amountOf(claim) <= b.totals[of].limit {
			return fmt.Errorf("claim %s waits although it fits", claim.Name)
		}
	}
	for of, stored := range b.ledgers {
		s := &stored.Spec
		if len(s.Reservations)+len(s.Released)+len(s.Slices) > 0 || b.totals[of].used != held[of] {
			return fmt.Errorf("the ledger of %s has %+v, claims hold %d, in flight are %+v, %v, %+v", of.Name, b.totals[of], held[of], s.Reservations, s.Released, s.Slices)
		}
	}
	return nil
}

// storedLedgers returns the ledgers in storage.
func (b *books) storedLedgers() map[quotav1alpha1.ConsumerRef]*quotav1alpha1.ConsumerLedger {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.ledgers)
}

func consumerOf(object *corev1.ConfigMap) quotav1alpha1.ConsumerRef {
	number, _ := strconv.Atoi(object.Namespace[len("org-"):])
	return consumer(number)
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

func isGranted(claim *quotav1alpha1.ResourceClaim) bool {
	return apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
}

// isWaiting reports whether, by its status, a claim does not fit.
func isWaiting(claim *quotav1alpha1.ResourceClaim) bool {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	return granted != nil && granted.Reason == quotav1alpha1.ReasonQuotaExceeded
}
