package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Expect records the coming change of an object with an effect on its cost. base is the version of the object before
// the update. freed are the consumers that regain quota: denials of their requests wait a little for the release.
func (e *Engine) Expect(o Object, base string, freed []quotav1alpha1.ConsumerRef) {
	e.ExpectUpdate(o, base, freed, unreported)
}

// ExpectUpdate is Expect for an update with a report of its end, see [Engine.EndUpdate]. id identifies the update. Call
// it with the lock of the object.
func (e *Engine) ExpectUpdate(o Object, base string, freed []quotav1alpha1.ConsumerRef, id types.UID) {
	e.updates.open(o.UID, id)
	for _, consumer := range freed {
		e.Store.ExpectRelease(consumer, releaseOf(o.UID))
	}
	e.changes.note(o.UID, &change{kind: o.Kind, base: base, freed: freed})
	if len(freed) > 0 {
		e.queue.AddAfter(o, pendingRetry) // the wait for the release ends
	}
}

// IsFreeing reports whether a consumer regains quota once the claims of an object follow a completed change. version
// is the present version of the object. A change is complete once that is beyond the version before the change.
func (e *Engine) IsFreeing(uid types.UID, version string, consumer quotav1alpha1.ConsumerRef) bool {
	change := e.changes.of(uid)
	return change != nil && slices.Contains(change.freed, consumer) && !claims.MayChange(version, change.base)
}

// Restore enqueues an object that may lack the claim of the policy with the label value.
func (e *Engine) Restore(o Object, policy string) {
	e.changes.note(o.UID, &change{kind: o.Kind, restored: []string{policy}})
	e.queue.Add(o)
}

// requeueLater enqueues an object for the time after a change in flight. It records the change, because by then
// nothing else may indicate that the claims have to follow.
func (e *Engine) requeueLater(o Object) {
	if !e.IsChanging(o.UID) {
		e.changes.note(o.UID, &change{kind: o.Kind})
	}
	e.queue.AddAfter(o, pendingRetry)
}

// Change is the outstanding work on the claims of an object.
type Change struct {
	Object Object
	// Base is the version before the last update, or empty without an update.
	Base string
	// Restored are the label values of policies whose claims the object may lack.
	Restored []string
}

// ChangeOf returns the outstanding work on the claims of an object. It reports false if there is none.
func (e *Engine) ChangeOf(uid types.UID) (Change, bool) {
	c := e.changes.of(uid)
	if c == nil {
		return Change{}, false
	}
	return Change{Object: Object{c.kind, uid}, Base: c.base, Restored: slices.Clone(c.restored)}, true
}

// IsChanging reports whether the claims of an object have yet to follow a change of it.
func (e *Engine) IsChanging(uid types.UID) bool { return e.changes.of(uid) != nil }

// Modified enqueues an object after a change, if its claims have to follow.
func (e *Engine) Modified(o Object) {
	if e.IsChanging(o.UID) || e.hasChangeInFlight(o.UID) {
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

func (e *Engine) hasChangeInFlight(uid types.UID) bool {
	for _, reservation := range e.claimReservations(uid) {
		if isForChange(reservation) {
			return true
		}
	}
	return false
}

// isForChange reports whether a reservation is for a change of its object.
func isForChange(reservation ledgerstore.InFlight) bool {
	if ledgerstore.IsAmendment(reservation.Key) {
		return true
	}
	intent, err := claims.IntentOf(reservation.Claim)
	return err == nil && intent.Base != ""
}

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
	e.updates.expire(now.Add(-10*pendingRetry), func(uid types.UID) bool { return e.IsChanging(uid) || e.hasChangeInFlight(uid) })
}
