package enforce

import (
	"context"
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
	if h.Objects.Presence(kind, earlier) == objectcache.Present {
		return h.Store.Apply(ctx, evaluated[0].Consumer, request)
	}

	request.Instead = map[string]string{}
	for _, p := range evaluated {
		request.Instead[p.Key] = ledgerstore.ObjectKey(claims.LabelValue(p.Policy), string(earlier))
	}
	// Before the charge moves: the object may appear at any moment.
	h.replaced.add(earlier, &replacedCreate{name: c.Name, by: c.UID})
	outcome, err := h.Store.Apply(ctx, evaluated[0].Consumer, request)
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
	// by is the object with the reservations now. isByEnded is set once its create has ended.
	by        types.UID
	isByEnded bool
}

// add remembers an object for as long as it may still appear.
func (r *replaced) add(uid types.UID, create *replacedCreate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.creates == nil {
		r.creates = map[types.UID]*replacedCreate{}
	}
	if _, known := r.creates[uid]; !known {
		time.AfterFunc(r.lifetime, func() { r.appeared(uid) })
	}
	r.creates[uid] = create
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

// takeLocked removes an object. Creates before it now wait for the one with its reservations.
func (r *replaced) takeLocked(uid types.UID) *replacedCreate {
	create := r.creates[uid]
	delete(r.creates, uid)
	for _, earlier := range r.creates {
		if create != nil && earlier.by == uid {
			earlier.by, earlier.isByEnded = create.by, create.isByEnded
		}
	}
	return create
}

// end records the end of the create of an object. It reports whether an earlier object may still appear whose
// reservations that create took over.
func (r *replaced) end(uid types.UID) (isNeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, earlier := range r.creates {
		if earlier.by == uid {
			earlier.isByEnded, isNeeded = true, true
		}
	}
	return isNeeded
}

// forget forgets an object that cannot appear. If the create with its reservations has ended, it returns the object of
// that one.
func (r *replaced) forget(uid types.UID) (ended types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if create := r.takeLocked(uid); create != nil && create.isByEnded {
		return create.by
	}
	return ""
}
