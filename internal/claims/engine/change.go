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

// Expect notes that an object is about to change in a way that changes what it costs. base is the
// version that the change is made to. freed are the consumers of whom it will cost less: refusals
// wait a little for that.
func (e *Engine) Expect(o Object, base string, freed []quotav1alpha1.ConsumerRef) {
	for _, consumer := range freed {
		e.Store.ExpectRelease(consumer, releaseOf(o.UID))
	}
	e.changes.note(o.UID, &change{kind: o.Kind, base: base, freed: freed})
	if len(freed) > 0 {
		e.queue.AddAfter(o, pendingRetry) // nobody waits any longer
	}
}

// IsFreeing reports whether a consumer will have more once the claims of an object follow a change that
// was made to it: the object, of which this is the version, is past that which the change was made to.
func (e *Engine) IsFreeing(uid types.UID, version string, consumer quotav1alpha1.ConsumerRef) bool {
	change := e.changes.of(uid)
	return change != nil && slices.Contains(change.freed, consumer) && !claims.MayChange(version, change.base)
}

// Restore enqueues an object that may lack the claim of the policy with that label.
func (e *Engine) Restore(o Object, policy string) {
	e.changes.note(o.UID, &change{kind: o.Kind, restored: []string{policy}})
	e.queue.Add(o)
}

// requeueLater has an object looked at once what is under way is done. It is noted, because by then
// nothing else may tell that there is a change to follow.
func (e *Engine) requeueLater(o Object) {
	if !e.IsChanging(o.UID) {
		e.changes.note(o.UID, &change{kind: o.Kind})
	}
	e.queue.AddAfter(o, pendingRetry)
}

// Change is what is yet to be done about the claims of an object.
type Change struct {
	Object Object
	// Base is the version that the last update is made to, or empty if nobody updates the object.
	Base string
	// Restored are the policies, as labels name them, whose claims the object may lack.
	Restored []string
}

// ChangeOf returns what is yet to be done about the claims of an object, or false.
func (e *Engine) ChangeOf(uid types.UID) (Change, bool) {
	c := e.changes.of(uid)
	if c == nil {
		return Change{}, false
	}
	return Change{Object: Object{c.kind, uid}, Base: c.base, Restored: slices.Clone(c.restored)}, true
}

// IsChanging reports whether the claims of an object have yet to follow a change of it.
func (e *Engine) IsChanging(uid types.UID) bool { return e.changes.of(uid) != nil }

// Modified enqueues an object that was modified, if its claims have to follow.
func (e *Engine) Modified(o Object) {
	if e.IsChanging(o.UID) || e.hasChangeInFlight(o.UID) {
		e.queue.Add(o)
	}
}

// Vanished notes that an object is gone. Nobody waits any longer for what a change of it would have freed.
func (e *Engine) Vanished(uid types.UID, isCharged bool) {
	if isCharged {
		e.gone.add(uid)
	}
	if change := e.changes.take(uid); change != nil {
		for _, consumer := range change.freed {
			e.Store.ReleaseDone(consumer, releaseOf(uid))
		}
	}
}

// IsGone reports whether an object that was charged was seen to vanish.
func (e *Engine) IsGone(uid types.UID) bool { return e.gone.has(uid) }

// releaseOf identifies what an object frees by changing.
func releaseOf(uid types.UID) string { return "change:" + string(uid) }

func (e *Engine) hasChangeInFlight(uid types.UID) bool {
	for _, reservation := range e.Store.ReservationsFor(string(uid)) {
		if isForChange(reservation) {
			return true
		}
	}
	return false
}

// isForChange reports whether a reservation was made because its object was about to change.
func isForChange(reservation ledgerstore.InFlight) bool {
	if ledgerstore.IsAmendment(reservation.Key) {
		return true
	}
	intent, err := claims.IntentOf(reservation.Claim)
	return err == nil && intent.Base != ""
}

// Sweep enqueues the objects whose update must have been made by now, or never will be, and forgets what no longer matters.
func (e *Engine) Sweep() {
	now := time.Now()
	for o, change := range e.changes.before(now.Add(-e.Store.ReservationLifetime)) {
		if e.Objects.Presence(o.Kind, o.UID) == objectcache.Present {
			e.queue.Add(o)
		} else {
			e.changes.end(o.UID, change)
		}
	}
	// Those that ended in another way belong to claims that went away before they were seen.
	e.granted.retain(e.IsInFlight)
	e.gone.expire(now.Add(-2 * e.Store.ReservationLifetime))
}
