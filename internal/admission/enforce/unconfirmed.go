package enforce

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// failuresMin is the number of failures after which even a single further request must leave quota to others:
	// otherwise one failing request after the other could hold a whole limit. One failure is a mistake.
	failuresMin = 2
	// failureMemory is how many lifetimes of a reservation the handler remembers such a request.
	failureMemory = 2
)

// share is the part of a consumer's quota that one requester may hold until its requests have an effect.
type share struct {
	// requester names a user, see [requesterOf].
	requester string
	consumer  quotav1alpha1.ConsumerRef
}

// requesterOf names the user of a request. It believes only the API server: a tenant can invent controllers in owner
// references, and make ServiceAccounts, so those of a namespace are one requester. The controllers of the control plane
// act for everybody, so each namespace they act in is a requester of its own.
func requesterOf(user authenticationv1.UserInfo, namespace string) string {
	account, isServiceAccount := strings.CutPrefix(user.Username, "system:serviceaccount:")
	switch home, _, _ := strings.Cut(account, ":"); {
	case isServiceAccount && home != "kube-system":
		return "the ServiceAccounts of namespace " + home
	case strings.HasPrefix(user.Username, "system:"):
		return fmt.Sprintf("user %s in namespace %s", user.Username, namespace)
	default:
		return "user " + user.Username
	}
}

// unconfirmed are the admitted requests that hold quota although nobody has seen their effect: creates without an
// object, and updates in flight.
type unconfirmed struct {
	// lifetime is the lifetime of a reservation.
	lifetime time.Duration

	mu       sync.Mutex
	byShare  map[share]*holding
	byObject map[types.UID][]*heldRequest
}

// holding is what one requester holds.
type holding struct {
	requests map[requestKey]*heldRequest
	amounts  map[string]ledger.Total
	// lookedAt is the time of the last look whether they have ended, and hasYoung whether one was young then.
	lookedAt time.Time
	hasYoung bool
	// failures are the remembered requests that had no effect in time, and kept quota from others until then. Quota that
	// nobody else needed was not held from anybody.
	failures int
}

// requestKey identifies a request of one requester: the create of an object, or an update by one policy.
type requestKey struct {
	uid    types.UID
	policy string
}

// heldRequest is one request for quota of one consumer, with its repetitions: the reviews of one create, or the updates
// of one object. The ledger has one reservation for all of them.
type heldRequest struct {
	requestKey
	share share
	kind  schema.GroupKind

	// reserved are the largest charges of a repetition that reserved its quota, and deciding the repetitions without a
	// decision.
	reserved []ledger.Charge
	deciding []*attempt

	// isInTheWay is set once somebody else was refused quota because of this request.
	isInTheWay bool

	// since is the time of the first repetition, and renewed that of a later one that reserved its quota, if any.
	since, renewed time.Time
	expiry         *time.Timer
}

// attempt is one repetition of a request.
type attempt struct {
	request *heldRequest
	charges []ledger.Charge
}

func (r *heldRequest) isUpdate() bool { return r.policy != "" }

func (r *heldRequest) isYoung() bool { return time.Since(r.since) < appearsWithin }

// charges returns what the request holds, or would hold after the pending decisions.
func (r *heldRequest) charges() []ledger.Charge {
	held := r.reserved
	for _, a := range r.deciding {
		held = larger(held, a.charges)
	}
	return held
}

// begin adds a request, or a repetition of it, and returns what has to be left to others beside it. A requester without
// other requests may take everything, unless several failed lately. open is the number of requests before. If the
// request is still there at the end of its lifetime, begin has atEnd called with it.
//
// The time of a request is that of its first repetition. Otherwise an update that fails elsewhere, repeated in time,
// would never count as failed, and could hold a whole limit for ever.
func (u *unconfirmed) begin(key requestKey, who share, kind schema.GroupKind, charges []ledger.Charge, atEnd func(*heldRequest)) (a *attempt, spare ledgerstore.Spare, open int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.holdingLocked(who)
	open = len(h.requests)

	r := h.requests[key]
	if r == nil {
		r = &heldRequest{requestKey: key, share: who, kind: kind, since: time.Now()}
	}
	a = &attempt{r, merged(charges)}
	spare = h.spareFor(a, open-u.partsLocked(r))

	if h.requests[key] == nil {
		h.requests[key] = r
		u.byObject[r.uid] = append(u.byObject[r.uid], r)
		r.expiry = time.AfterFunc(u.lifetime, func() { atEnd(r) })
	}
	h.subtract(r.charges())
	r.deciding = append(r.deciding, a)
	h.add(r.charges())
	return a, spare, open
}

// conclude records the decision on a repetition. A request that never reserved anything is forgotten. If a repetition
// is refused, its request goes on holding what it reserved before.
func (u *unconfirmed) conclude(a *attempt, isReserved bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := a.request
	h := u.byShare[r.share]
	if h == nil || h.requests[r.requestKey] != r {
		return
	}

	h.subtract(r.charges())
	r.deciding = slices.DeleteFunc(r.deciding, func(other *attempt) bool { return other == a })
	if isReserved && len(r.reserved) > 0 {
		r.renewed = time.Now()
	}
	if isReserved {
		r.reserved = larger(r.reserved, a.charges)
	}
	h.add(r.charges())

	if len(r.reserved) == 0 && len(r.deciding) == 0 {
		u.removeLocked(r)
	}
}

// isDecided reports whether no repetition of a request waits for its decision.
func (u *unconfirmed) isDecided(r *heldRequest) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(r.deciding) == 0
}

// holdingLocked returns what a requester holds.
func (u *unconfirmed) holdingLocked(who share) *holding {
	if u.byShare == nil {
		u.byShare, u.byObject = map[share]*holding{}, map[types.UID][]*heldRequest{}
	}
	h := u.byShare[who]
	if h == nil {
		h = &holding{requests: map[requestKey]*heldRequest{}, amounts: map[string]ledger.Total{}}
		u.byShare[who] = h
	}
	return h
}

// partsLocked returns how many requests are the same as r: the one that r repeats at once, and those of the same update
// by other policies. A later repetition is another request, because the first may have failed.
func (u *unconfirmed) partsLocked(r *heldRequest) int {
	parts := 0
	for _, other := range u.byObject[r.uid] {
		if other.share == r.share && other.isYoung() {
			parts++
		}
	}
	return parts
}

// spareFor returns what has to stay free beside a request, with others from the same requester: what it takes, and as
// much as its requester then holds. A repetition at once extends the reservation of its request. A later one counts
// beside its request, which may have failed.
func (h *holding) spareFor(a *attempt, others int) ledgerstore.Spare {
	r := a.request
	afterwards := &holding{amounts: maps.Clone(h.amounts)}
	taken := a.charges
	if r.isYoung() {
		afterwards.subtract(r.charges())
		taken = larger(r.charges(), a.charges)
	}
	if others == 0 && h.failures < failuresMin {
		return ledgerstore.Spare{}
	}

	afterwards.add(taken)
	spare := ledgerstore.Spare{Reservations: others + 2}
	var covered []ledger.Charge
	if r.isYoung() {
		covered = r.reserved
	}
	for _, charge := range ledger.Growth(covered, a.charges) {
		charge.Amount = charge.Amount.AddUpTo(afterwards.amounts[charge.ResourceType].Amount())
		spare.Charges = append(spare.Charges, charge)
	}
	return spare
}

// merged adds up the charges with the same resource type and dimensions.
func merged(charges []ledger.Charge) []ledger.Charge {
	return combined(charges, ledger.Amount.AddUpTo)
}

// larger returns the larger charge of each resource type and dimensions.
func larger(a, b []ledger.Charge) []ledger.Charge {
	return combined(slices.Concat(a, b), func(x, y ledger.Amount) ledger.Amount { return max(x, y) })
}

// combined combines the charges with the same resource type and dimensions.
func combined(charges []ledger.Charge, combine func(a, b ledger.Amount) ledger.Amount) []ledger.Charge {
	var all []ledger.Charge
	for _, charge := range charges {
		i := slices.IndexFunc(all, func(other ledger.Charge) bool {
			return other.ResourceType == charge.ResourceType && other.Dimensions == charge.Dimensions
		})
		if i < 0 {
			all = append(all, charge)
			continue
		}
		all[i].Amount = combine(all[i].Amount, charge.Amount)
	}
	return all
}

func (h *holding) add(charges []ledger.Charge) {
	for _, charge := range charges {
		h.amounts[charge.ResourceType] = h.amounts[charge.ResourceType].Plus(charge.Amount)
	}
}

func (h *holding) subtract(charges []ledger.Charge) {
	for _, charge := range charges {
		rest := h.amounts[charge.ResourceType].Minus(charge.Amount)
		if h.amounts[charge.ResourceType] = rest; rest == (ledger.Total{}) {
			delete(h.amounts, charge.ResourceType)
		}
	}
}

// end forgets the requests for an object that match.
func (u *unconfirmed) end(uid types.UID, match func(*heldRequest) bool) {
	u.mu.Lock()
	requests := slices.Clone(u.byObject[uid])
	u.mu.Unlock()

	for _, r := range requests {
		if match(r) {
			u.drop(r)
		}
	}
}

// drop forgets a request that holds nothing, or whose object exists. A request with a pending decision stays.
func (u *unconfirmed) drop(r *heldRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.byShare[r.share]; h != nil && h.requests[r.requestKey] == r && len(r.deciding) == 0 {
		u.removeLocked(r)
	}
}

// markInTheWay records that requests for these objects kept quota from somebody.
func (u *unconfirmed) markInTheWay(who share, uids []types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uid := range uids {
		for _, r := range u.byObject[uid] {
			if r.share != who && r.share.consumer == who.consumer {
				r.isInTheWay = true
			}
		}
	}
}

// fail notes that a request had no effect in time. If a later repetition holds its quota, the request begins again with
// that one, and has atEnd called at its end.
func (u *unconfirmed) fail(r *heldRequest, atEnd func(*heldRequest)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byShare[r.share]
	if h == nil || h.requests[r.requestKey] != r {
		return
	}

	if r.isInTheWay {
		for _, part := range u.byObject[r.uid] { // an update fails once, for all policies
			part.isInTheWay = part.isInTheWay && part.share != r.share
		}
		h.failures++
		time.AfterFunc(failureMemory*u.lifetime, func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			h.failures--
			u.dropEmptyLocked(r.share)
		})
	}

	r.isInTheWay = false
	switch {
	case r.renewed.After(r.since):
		r.since = r.renewed
	case len(r.deciding) > 0:
		r.since = time.Now()
	default:
		u.removeLocked(r)
		return
	}
	r.expiry = time.AfterFunc(time.Until(r.since.Add(u.lifetime)), func() { atEnd(r) })
}

func (u *unconfirmed) removeLocked(r *heldRequest) {
	h := u.byShare[r.share]
	r.expiry.Stop()
	h.subtract(r.charges())
	delete(h.requests, r.requestKey)
	u.dropEmptyLocked(r.share)
	u.byObject[r.uid] = slices.DeleteFunc(u.byObject[r.uid], func(other *heldRequest) bool { return other == r })
	if len(u.byObject[r.uid]) == 0 {
		delete(u.byObject, r.uid)
	}
}

func (u *unconfirmed) dropEmptyLocked(who share) {
	if h := u.byShare[who]; h != nil && len(h.requests) == 0 && h.failures == 0 {
		delete(u.byShare, who)
	}
}
