package enforce

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// reserveFor reserves the claims of one consumer for a new object. If the handler admitted an earlier create of the
// same name and no object has the name, reserveFor takes over the earlier reservation, because only one of the two
// can succeed. If the earlier object appears after all, it counts then, and Bursar holds room for it until then. So all
// policies have to count objects.
//
// Nobody can roll back a takeover, so it happens only if no other consumer has to decide. A reservation from before the
// policy enforced may be beyond the limit, so nobody takes it over.
func (h *Handler) reserveFor(ctx context.Context, c *create, evaluated []*evaluatedClaim, isOnly bool, spare ledgerstore.Spare) (ledgerstore.Outcome, error) {
	kind := c.Kind.GroupKind()
	earlier := h.admitted.uidOf(objectName{kind, c.Name})
	request := ledgerstore.Request{Reservations: reservationsOf(evaluated), TakesOver: true, Spare: spare}
	if earlier == "" || earlier == c.UID || !isOnly || !countObjects(evaluated) || !h.admitted.isEnforced(earlier, evaluated) {
		return h.Store.Apply(ctx, evaluated[0].Consumer, request)
	}
	unlock, err := h.Store.LockObject(ctx, string(earlier)) // other creates of the name may take it over, too
	if err != nil {
		return ledgerstore.Outcome{}, err
	}
	defer unlock()
	if h.admitted.uidOf(objectName{kind, c.Name}) != earlier || h.Objects.Presence(kind, earlier) == objectcache.Present {
		return h.Store.Apply(ctx, evaluated[0].Consumer, request)
	}

	request.Instead = map[string]string{}
	for _, p := range evaluated {
		request.Instead[p.Key] = ledgerstore.ObjectKey(claims.LabelValue(p.Policy), string(earlier))
	}
	// Before the charge moves: the object may appear at any moment.
	conclude := h.replaced.begin(earlier, c.Name, c.UID)
	outcome, err := h.Store.Apply(ctx, evaluated[0].Consumer, request)
	if err == nil { // otherwise it may have happened
		conclude(len(outcome.Taken) > 0)
	}
	if err == nil && outcome.Code == ledger.Admitted && len(outcome.Taken) == len(evaluated) {
		h.admitted.remove(earlier) // it no longer holds anything
		h.unconfirmed.end(earlier, func(*heldRequest) bool { return true })
	}
	return outcome, err
}

// countObjects reports whether the objects count by all policies once they exist.
func countObjects(evaluated []*evaluatedClaim) bool {
	return !slices.ContainsFunc(evaluated, func(p *evaluatedClaim) bool { return !p.policy.CountsObjects() })
}

// replaced holds the objects with reservations taken over by other creates.
type replaced struct {
	// lifetime is how long replaced remembers an object.
	lifetime time.Duration

	mu      sync.Mutex
	creates map[types.UID]*replacedCreate
}

// replacedCreate is a create with reservations taken over by another create of its name.
type replacedCreate struct {
	name types.NamespacedName
	// by are the objects whose creates may have the reservations now: one, unless the outcome of a takeover is unknown.
	// The value is true once the create has ended.
	by map[types.UID]bool
}

// begin remembers an object for as long as it may still appear, because another create may take over its reservations
// at any moment. Then conclude tells whether it did.
func (r *replaced) begin(uid types.UID, name types.NamespacedName, by types.UID) (conclude func(isTaken bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	create := r.creates[uid]
	if create == nil {
		create = &replacedCreate{name: name, by: map[types.UID]bool{}}
		if r.creates == nil {
			r.creates = map[types.UID]*replacedCreate{}
		}
		r.creates[uid] = create
		time.AfterFunc(r.lifetime, func() { r.appeared(uid) })
	}
	before := maps.Clone(create.by)
	create.by[by] = false
	return func(isTaken bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if isTaken {
			before = map[types.UID]bool{by: create.by[by]}
		}
		if create.by = before; len(before) == 0 {
			delete(r.creates, uid) // it has its own reservations
		}
	}
}

// nameOf returns the name of an object with reservations taken over by another create.
func (r *replaced) nameOf(uid types.UID) (name types.NamespacedName, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if create := r.creates[uid]; create != nil {
		return create.name, true
	}
	return types.NamespacedName{}, false
}

// appeared forgets an object that has appeared.
func (r *replaced) appeared(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeLocked(uid)
}

// takeLocked removes an object. Creates before it now wait for the ones with its reservations.
func (r *replaced) takeLocked(uid types.UID) *replacedCreate {
	create := r.creates[uid]
	delete(r.creates, uid)
	if create == nil {
		return nil
	}
	for _, earlier := range r.creates {
		if _, waits := earlier.by[uid]; waits {
			delete(earlier.by, uid)
			maps.Copy(earlier.by, create.by)
		}
	}
	return create
}

// end records the end of the create of an object. It reports whether an earlier object may still appear whose
// reservations that create may have taken over.
func (r *replaced) end(uid types.UID) (isNeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, earlier := range r.creates {
		if _, is := earlier.by[uid]; is {
			earlier.by[uid], isNeeded = true, true
		}
	}
	return isNeeded
}

// forget forgets an object that cannot appear. It returns the objects of the ended creates that may have its
// reservations.
func (r *replaced) forget(uid types.UID) (ended []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if create := r.takeLocked(uid); create != nil {
		for by, hasEnded := range create.by {
			if hasEnded {
				ended = append(ended, by)
			}
		}
	}
	return ended
}
