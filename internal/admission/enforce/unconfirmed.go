package enforce

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// failuresMin is the number of requests without an effect after which even a single further request must leave quota
	// to others: otherwise one failing request after the other could hold a whole limit. One failure is a mistake.
	failuresMin = 2
	// failureMemory is how many lifetimes of a reservation the handler remembers such a request.
	failureMemory = 2
)

// requester is who holds quota of a consumer until requests have an effect.
type requester struct {
	name     string
	consumer quotav1alpha1.ConsumerRef
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

	mu          sync.Mutex
	byRequester map[requester]*holding
	byObject    map[types.UID][]*heldRequest
}

// holding is what one requester holds.
type holding struct {
	requests map[requestKey]*heldRequest
	amounts  map[string]total
	// failures are the requests without an effect in time that the handler still remembers.
	failures int
}

// requestKey identifies a request of one requester: the create of an object, or an update by one policy.
type requestKey struct {
	uid    types.UID
	policy string
}

// heldRequest is one request for quota of one consumer.
type heldRequest struct {
	requestKey
	requester requester
	kind      schema.GroupKind
	charges   []ledger.Charge

	since  time.Time
	expiry *time.Timer
	// isReserved is true once the ledger has its reservation.
	isReserved atomic.Bool
}

func (r *heldRequest) isUpdate() bool { return r.policy != "" }

func (r *heldRequest) isYoung() bool { return time.Since(r.since) < appearsWithin }

// begin adds a request, and returns what has to be left to others beside it. A requester without other requests may
// take everything, unless several had no effect lately. If the request is still there at the end of its lifetime,
// begin has atEnd called.
func (u *unconfirmed) begin(r *heldRequest, atEnd func()) ledgerstore.Spare {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.holdingLocked(r.requester).requests[r.requestKey]
	if before != nil && before.isYoung() {
		u.removeLocked(before) // repeated at once
		before = nil
	}
	h := u.holdingLocked(r.requester)
	spare := h.spareFor(r)
	if before != nil {
		return spare // a retry must not make an update younger that seems to have failed
	}
	r.since = time.Now()
	h.requests[r.requestKey] = r
	h.add(r.charges)
	u.byObject[r.uid] = append(u.byObject[r.uid], r)
	r.expiry = time.AfterFunc(u.lifetime, atEnd)
	return spare
}

// holdingLocked returns what a requester holds.
func (u *unconfirmed) holdingLocked(who requester) *holding {
	if u.byRequester == nil {
		u.byRequester, u.byObject = map[requester]*holding{}, map[types.UID][]*heldRequest{}
	}
	h := u.byRequester[who]
	if h == nil {
		h = &holding{requests: map[requestKey]*heldRequest{}, amounts: map[string]total{}}
		u.byRequester[who] = h
	}
	return h
}

// spareFor returns what has to stay free beside a new request: the request itself, and as much as its requester then
// holds.
func (h *holding) spareFor(r *heldRequest) ledgerstore.Spare {
	if len(h.requests) == 0 && h.failures < failuresMin {
		return ledgerstore.Spare{}
	}
	afterwards := &holding{amounts: maps.Clone(h.amounts)}
	afterwards.add(r.charges)
	spare := ledgerstore.Spare{Reservations: len(h.requests) + 2}
	for _, charge := range merged(r.charges) {
		charge.Amount = charge.Amount.AddUpTo(afterwards.amounts[charge.ResourceType].amount())
		spare.Charges = append(spare.Charges, charge)
	}
	return spare
}

// merged adds up the charges with the same resource type and dimensions.
func merged(charges []ledger.Charge) []ledger.Charge {
	var sums []ledger.Charge
	for _, charge := range charges {
		i := slices.IndexFunc(sums, func(sum ledger.Charge) bool {
			return sum.ResourceType == charge.ResourceType && sum.Dimensions == charge.Dimensions
		})
		if i < 0 {
			sums = append(sums, charge)
			continue
		}
		sums[i].Amount = sums[i].Amount.AddUpTo(charge.Amount)
	}
	return sums
}

func (h *holding) add(charges []ledger.Charge) {
	for _, charge := range charges {
		h.amounts[charge.ResourceType] = h.amounts[charge.ResourceType].plus(charge.Amount)
	}
}

func (h *holding) subtract(charges []ledger.Charge) {
	for _, charge := range charges {
		rest := h.amounts[charge.ResourceType].minus(charge.Amount)
		if h.amounts[charge.ResourceType] = rest; rest == (total{}) {
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

// drop forgets a request that holds nothing, or whose object exists.
func (u *unconfirmed) drop(r *heldRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.byRequester[r.requester]; h != nil && h.requests[r.requestKey] == r {
		u.removeLocked(r)
	}
}

// fail notes that a request had no effect in time.
func (u *unconfirmed) fail(r *heldRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byRequester[r.requester]
	if h == nil || h.requests[r.requestKey] != r {
		return
	}
	h.failures++
	u.removeLocked(r)
	time.AfterFunc(failureMemory*u.lifetime, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		h.failures--
		u.dropEmptyLocked(r.requester)
	})
}

func (u *unconfirmed) removeLocked(r *heldRequest) {
	h := u.byRequester[r.requester]
	r.expiry.Stop()
	h.subtract(r.charges)
	delete(h.requests, r.requestKey)
	u.dropEmptyLocked(r.requester)
	u.byObject[r.uid] = slices.DeleteFunc(u.byObject[r.uid], func(other *heldRequest) bool { return other == r })
	if len(u.byObject[r.uid]) == 0 {
		delete(u.byObject, r.uid)
	}
}

func (u *unconfirmed) dropEmptyLocked(who requester) {
	if h := u.byRequester[who]; h != nil && len(h.requests) == 0 && h.failures == 0 {
		delete(u.byRequester, who)
	}
}

// of returns the requests by which a requester holds quota.
func (u *unconfirmed) of(who requester) []*heldRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byRequester[who]
	if h == nil {
		return nil
	}
	return slices.Collect(maps.Values(h.requests))
}

// total is a sum of amounts. It cannot overflow.
type total struct{ high, low uint64 }

func (t total) plus(a ledger.Amount) total {
	low, carry := bits.Add64(t.low, uint64(a), 0)
	return total{t.high + carry, low}
}

func (t total) minus(a ledger.Amount) total {
	low, borrow := bits.Sub64(t.low, uint64(a), 0)
	return total{t.high - borrow, low}
}

// amount returns the total, or AmountMax if it is larger.
func (t total) amount() ledger.Amount {
	if t.high > 0 || t.low > uint64(ledger.AmountMax) {
		return ledger.AmountMax
	}
	return ledger.Amount(t.low)
}
