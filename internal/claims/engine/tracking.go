package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/kube/objectcache"
)

// ExpectUpdate records an admitted update of an object, with a report of its end, see [Engine.EndUpdate]. id identifies
// the update.
func (e *Engine) ExpectUpdate(o Object, id types.UID) {
	e.updates.open(o.UID, id)
	e.changes.note(o.UID, &change{kind: o.Kind})
}

// Restore enqueues an object that may lack the claim of the policy with the label value.
func (e *Engine) Restore(o Object, policy string) {
	e.changes.note(o.UID, &change{kind: o.Kind, restored: []string{policy}})
	e.queue.Add(o)
}

// Change is the outstanding work on the claims of an object.
type Change struct {
	Object Object
	// Restored are the label values of policies whose claims the object may lack.
	Restored []string
}

// ChangeOf returns the outstanding work on the claims of an object. It reports false if there is none.
func (e *Engine) ChangeOf(uid types.UID) (Change, bool) {
	c := e.changes.of(uid)
	if c == nil {
		return Change{}, false
	}
	return Change{Object: Object{c.kind, uid}, Restored: slices.Clone(c.restored)}, true
}

// IsChanging reports whether an object has outstanding work.
func (e *Engine) IsChanging(uid types.UID) bool { return e.changes.of(uid) != nil }

// Modified enqueues an object after a change, if its claims have to follow.
func (e *Engine) Modified(o Object) {
	if e.IsChanging(o.UID) {
		e.queue.Add(o)
	}
}

// Vanished records the deletion of an object. It ends the wait for quota to be freed by a change.
func (e *Engine) Vanished(uid types.UID, isCharged bool) {
	if isCharged {
		e.gone.add(uid)
	}
	e.updates.forget(uid)
	if change := e.changes.take(uid); change != nil {
		for _, consumer := range change.freed {
			e.Store.ReleaseDone(consumer, releaseOf(uid))
		}
	}
}

// IsGone reports whether the engine saw the deletion of a charged object.
func (e *Engine) IsGone(uid types.UID) bool { return e.gone.has(uid) }

// IsOver reports whether nothing makes the object any more: it was deleted, or its create has ended.
func (e *Engine) IsOver(uid types.UID) bool { return e.gone.has(uid) || e.ended.has(uid) }

// releaseOf returns the ID of the release by a change of an object.
func releaseOf(uid types.UID) string { return "change:" + string(uid) }

// Sweep enqueues the objects with an outdated update: the API server has made it or can no longer do so. It also
// expires old records.
func (e *Engine) Sweep() {
	now := time.Now()
	for o, change := range e.changes.before(now.Add(-e.Store.ReservationLifetime)) {
		if e.Objects.Presence(o.Kind, o.UID) == objectcache.Present {
			e.queue.Add(o)
		} else {
			e.changes.end(o.UID, change)
		}
	}
	// Reservations with another end belong to claims removed before they appeared in the cache.
	e.granted.retain(e.IsInFlight)
	e.sent.retain(e.Store)
	e.gone.expire(now.Add(-2 * e.Store.ReservationLifetime))
	e.ended.expire(now.Add(-2 * e.Store.ReservationLifetime))
	e.updates.expire(now.Add(-10*pendingRetry), e.IsChanging)
}
