package simulation

import (
	"maps"
	"math"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// objectKey identifies an object, and its version that a request is to change. That is 0 for one to create.
type objectKey struct {
	uid   types.UID
	after int64
}

func keyOfRequest(r *request) objectKey {
	key := objectKey{uid: r.object.UID}
	if r.before != nil {
		key.after = versionOf(r.before)
	}
	return key
}

// asked is an open request. until is the time after which nobody reserves for it; zero after its admission.
type asked struct {
	*request
	objectKey
	until time.Time
}

// isOpen reports whether a ledger may still reserve for it.
func (a *asked) isOpen() bool { return a.until.IsZero() || time.Now().Before(a.until) }

// review is an open request of a user.
type review struct {
	*asked
	consumer quotav1alpha1.ConsumerRef
	limit    int64
	// others has what each other object and each claim cost at most that existed meanwhile, or was about to. A claim of
	// record is part of its object.
	others map[types.UID]int64
}

// taken returns the most that others may have taken.
func (r *review) taken() (taken int64) {
	for _, cost := range r.others {
		taken += cost
	}
	return taken
}

// forgetReserved forgets the requests that a ledger has reserved for.
func (m *model) forgetReserved(spec *quotav1alpha1.ConsumerLedgerSpec) {
	for _, r := range spec.Reservations {
		key := objectKey{uid: types.UID(ledgerstore.ObjectUID(r.Key))}
		if r.Awaits != nil {
			key.after = r.Awaits.After
		}
		maps.DeleteFunc(m.asked, func(a *asked, _ struct{}) bool { return a.objectKey == key && a.growth() <= costOfCharges(r.Charges) })
	}
}

// follow notes what others have taken at this moment: the objects and claims that exist, and what pending requests may
// create or change. What was deleted before the review began is not among them, whatever the ledger says.
func (m *model) follow(r *review) {
	r.limit = min(r.limit, m.totals[r.consumer].limit)
	costs := m.existingFor(r.consumer)
	for a := range m.asked {
		if a != r.asked && m.mayPay(r.consumer, a.object.Namespace) && a.isOpen() && m.mayHappen(a.objectKey) {
			costs[a.uid] += a.growth() * m.factorLately()
		}
	}
	if stored := m.ledgers[r.consumer]; stored != nil {
		for _, pending := range stored.Spec.Reservations {
			m.addPending(costs, pending, r.objectKey)
		}
	}
	for uid, cost := range costs {
		r.others[uid] = max(r.others[uid], cost)
	}
}

// existingFor returns what the objects and claims cost that a consumer may pay for.
func (m *model) existingFor(of quotav1alpha1.ConsumerRef) map[types.UID]int64 {
	costs := map[types.UID]int64{}
	for uid, object := range m.objects {
		if m.mayPay(of, object.Namespace) {
			costs[uid] = costOf(object) * m.factorLately()
		}
	}
	for _, claim := range m.claims {
		if !isHeld(claim) || claim.Spec.ConsumerRef != of {
			continue
		}
		uid := claim.UID
		if !isDirect(claim) {
			uid = types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
		}
		costs[uid] = max(costs[uid], amountOf(claim))
	}
	return costs
}

// addPending adds what a pending request may still change, unless it is the one under review.
func (m *model) addPending(costs map[types.UID]int64, pending quotav1alpha1.LedgerReservation, reviewed objectKey) {
	if pending.Awaits == nil {
		return
	}
	key, charge := objectKey{types.UID(pending.Awaits.ID), pending.Awaits.After}, costOfCharges(pending.Charges)
	switch object := types.UID(ledgerstore.ObjectUID(pending.Awaits.ID)); {
	case object != "": // a claim of record, which may be late
		if object != reviewed.uid && !m.pastByID.existed(key.uid) {
			costs[object] = max(costs[object], charge)
		}
	case pending.Awaits.Kind == inventory.Claims:
		if claim, own := m.pastClaims.at(key.uid, math.MaxInt64); claim != nil && own <= key.after {
			costs[key.uid] += charge
		}
	case key != reviewed && m.mayHappen(key):
		costs[key.uid] += charge
	}
}

// ask records a user's request. From now on the ledger may charge it, unless it is a dry run.
func (m *model) ask(asks *request) *review {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.payerOf(asks.object)
	r := &review{
		asked:    &asked{asks, keyOfRequest(asks), time.Now().Add(webhookTimeout + m.shape.stall + lateMax + requestTimeout)},
		consumer: of, limit: m.totals[of].limit, others: map[types.UID]int64{},
	}
	m.reviews[r] = struct{}{}
	if !asks.isDryRun {
		m.asked[r.asked] = struct{}{}
	}
	m.checkLocked(of)
	return r
}

// answered records the answer to a review, or nil for none. A denial must be true.
func (m *model) answered(r *review, answer *admissionv1.AdmissionResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reviews, r)
	switch {
	case answer == nil:
	case answer.Allowed && !r.isDryRun:
		r.until = time.Time{}
		m.admitted[r.objectKey] = max(m.admitted[r.objectKey], r.growth())
	case !answer.Allowed && answer.Result.Code == http.StatusForbidden:
		delete(m.asked, r.asked)
		if r.taken()+r.growth()*m.factor() <= r.limit && m.isAtRest(r.object.Namespace) {
			m.violate("map %s for %d more is refused, and at most %d of %d were taken: %s", r.object.Name, r.growth(), r.taken(), r.limit, answer.Result.Message)
		}
	}
}

// mayHappen reports whether a request has not had an effect yet, and may have one.
func (m *model) mayHappen(key objectKey) bool {
	if key.after == 0 {
		return !m.past.existed(key.uid)
	}
	object := m.objects[key.uid]
	return object != nil && versionOf(object) <= key.after
}
