package enforce

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// admittedMargin extends the lifetime of a reservation. After the sum, the handler forgets an admitted object if it
// has not appeared.
const admittedMargin = 20 * time.Second

// objectName is the name of an object of a kind.
type objectName struct {
	kind schema.GroupKind
	types.NamespacedName
}

// admittedObjects holds the names of admitted objects that the watch has not shown yet. Together with the object
// cache it yields all possibly taken names.
type admittedObjects struct {
	// lifetime is the lifetime of a reservation.
	lifetime time.Duration

	mu     sync.Mutex
	byName map[objectName]types.UID
	byUID  map[types.UID]*admittedObject
}

// admittedObject is one admitted object.
type admittedObject struct {
	name   objectName
	expiry *time.Timer
	seen   chan struct{}
	// unenforced are the policies that charged the object also beyond a limit.
	unenforced []string
	// isShared is set if another review of the same create made some of the reservations.
	isShared bool
}

func (a *admittedObjects) add(c *create) {
	name := objectName{c.Kind.GroupKind(), c.Name}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName, a.byUID = map[objectName]types.UID{}, map[types.UID]*admittedObject{}
	}
	uid := c.UID // the timer must not hold a reference to the whole create
	if _, isKnown := a.byUID[uid]; isKnown {
		return // reviewed twice; others may wait for it
	}
	var unenforced []string
	for _, p := range c.claims {
		if !p.policy.Enforces() {
			unenforced = append(unenforced, p.Policy)
		}
	}
	a.byName[name] = uid
	a.byUID[uid] = &admittedObject{
		name: name, unenforced: unenforced, isShared: c.isShared,
		expiry: time.AfterFunc(a.lifetime+admittedMargin, func() { a.remove(uid) }), seen: make(chan struct{}),
	}
}

func (a *admittedObjects) remove(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	object, ok := a.byUID[uid]
	if !ok {
		return
	}
	object.expiry.Stop()
	close(object.seen)
	delete(a.byUID, uid)
	if a.byName[object.name] == uid {
		delete(a.byName, object.name)
	}
}

func (a *admittedObjects) uidOf(name objectName) types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byName[name]
}

// isEnforced reports whether all these policies charged an admitted object within the limits.
func (a *admittedObjects) isEnforced(uid types.UID, evaluated []*evaluatedClaim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	object := a.byUID[uid]
	return object != nil && !slices.ContainsFunc(evaluated, func(p *evaluatedClaim) bool { return slices.Contains(object.unenforced, p.Policy) })
}

// unseen returns the admitted but still unseen object of a name, or nil.
func (a *admittedObjects) unseen(name objectName) *admittedObject {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byUID[a.byName[name]]
}

// waitSeen waits until the handler sees or forgets the object. It reports false if the wait exceeds within.
func (o *admittedObject) waitSeen(ctx context.Context, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-o.seen:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Appeared records the appearance of an object. It is an [objectcache.Handler].
func (h *Handler) Appeared(_ schema.GroupKind, uid types.UID) {
	h.admitted.remove(uid)
	h.unconfirmed.end(uid, func(r *heldRequest) bool { return !r.isUpdate() })
	h.replaced.appeared(uid)
}

// isNameTaken reports whether another object already has the name. It looks up only possibly taken names. For all
// other names the API server finds out when it stores the object.
func (h *Handler) isNameTaken(ctx context.Context, c *create) (bool, error) {
	kind := c.Kind.GroupKind()
	// In this order, because an object is pending until the cache shows it.
	pending := h.admitted.uidOf(objectName{kind, c.Name})
	seen, ok := h.Objects.UIDOf(kind, c.Name)
	if (!ok || seen == c.UID) && (pending == "" || pending == c.UID) {
		return false, nil
	}
	exists, err := h.Objects.Exists(ctx, c.resource, c.Name, "")
	if err == nil && !exists && ok {
		h.Objects.ReportGone(kind, c.Name, seen)
	}
	return exists, err
}
