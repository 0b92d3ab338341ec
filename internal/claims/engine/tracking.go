package engine

import (
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

// updateMemory is how long the engine remembers the latest update of an object without outstanding work.
const updateMemory = 10 * time.Second

// IsChanging reports whether an update of an object may still have an effect.
func (e *Engine) IsChanging(uid types.UID) bool { return e.changes.of(uid) != nil }

// Modified enqueues an object after a change, if updates of it were admitted.
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
	if change := e.changes.of(uid); change != nil {
		e.endChange(uid, change)
	}
}

// endChange ends the outstanding work on an object, and the wait for quota that it may have freed.
func (e *Engine) endChange(uid types.UID, change *change) {
	for _, consumer := range change.freed {
		e.Store.ReleaseDone(consumer, releaseOf(uid))
	}
	e.changes.end(uid, change)
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
			e.endChange(o.UID, change)
		}
	}
	e.gone.expire(now.Add(-2 * e.Store.ReservationLifetime))
	e.ended.expire(now.Add(-2 * e.Store.ReservationLifetime))
	e.updates.expire(now.Add(-updateMemory), e.IsChanging)
}
