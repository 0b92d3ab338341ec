package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// EndCreate records the end of the request that creates an object. The API server can no longer make the object, so its
// reservations need not wait for their lifetime. A failed answer proves nothing, so [Engine.Process] looks for the
// object now, and ends the reservations if there is none. Denials wait a little for their quota.
//
// Call it only if no other create relies on these reservations, see [ledgerstore.Request.Instead].
func (e *Engine) EndCreate(o Object) {
	e.ended.add(o.UID)
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		e.Store.ExpectRelease(reservation.Consumer, reservation.Key)
	}
	e.queue.Add(o)
}

// concludeEnd ends the wait for the quota of an ended create that made its object after all.
func (e *Engine) concludeEnd(reservation ledgerstore.InFlight, o Object) {
	if e.ended.has(o.UID) {
		e.Store.ReleaseDone(reservation.Consumer, reservation.Key)
	}
}

// EndUpdate records the end of an update with an id, see [Engine.ExpectUpdate]. The API server has made the update or
// can no longer make it. Once all updates of the object have ended, their reservations end unless they had an effect.
// Denials wait a little for the quota of the updates.
func (e *Engine) EndUpdate(o Object, id types.UID) {
	if !e.updates.end(o.UID, id) || e.Objects.Presence(o.Kind, o.UID) != objectcache.Present {
		return
	}
	consumers := e.updates.consumers(o.UID)
	for _, consumer := range consumers {
		e.Store.ExpectRelease(consumer, releaseOf(o.UID))
	}
	e.changes.note(o.UID, &change{kind: o.Kind, freed: consumers})
	e.queue.Add(o)
}

// openUpdates are the admitted updates of objects, as far as this process admitted them, and their reservations. The
// zero value is empty.
type openUpdates struct {
	mu    sync.Mutex
	byUID map[types.UID]*objectUpdates
}

// objectUpdates are the updates of an object.
type objectUpdates struct {
	// since is the time of the latest update.
	since time.Time
	// open are the updates that may still come.
	open map[types.UID]struct{}
	// sequences are the reservations made only by updates of this process. Another process may extend one. It then has
	// another sequence.
	sequences map[reservationKey]int64
}

type reservationKey struct {
	consumer quotav1alpha1.ConsumerRef
	key      string
}

// touchLocked returns the updates of an object, adds them if necessary, and sets their time to now. The caller holds
// u.mu.
func (u *openUpdates) touchLocked(uid types.UID) *objectUpdates {
	if u.byUID == nil {
		u.byUID = map[types.UID]*objectUpdates{}
	}
	if u.byUID[uid] == nil {
		u.byUID[uid] = &objectUpdates{open: map[types.UID]struct{}{}, sequences: map[reservationKey]int64{}}
	}
	u.byUID[uid].since = time.Now()
	return u.byUID[uid]
}

// open adds an update.
func (u *openUpdates) open(uid, id types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.touchLocked(uid).open[id] = struct{}{}
}

// end removes an update. It reports whether it was the last one.
func (u *openUpdates) end(uid, id types.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	updates := u.byUID[uid]
	if updates == nil {
		return false
	}
	delete(updates.open, id)
	return len(updates.open) == 0
}

// reserved records a reservation by an update. former is the sequence before the update, or 0 if it is new.
func (u *openUpdates) reserved(uid types.UID, r Reserved, former int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	updates, key := u.touchLocked(uid), reservationKey{r.Consumer, r.Key}
	if former == 0 || former == updates.sequences[key] {
		updates.sequences[key] = r.Sequence
	} else {
		delete(updates.sequences, key) // somebody else relies on it, too
	}
}

// Reserved identifies a reservation for an update.
type Reserved struct {
	Consumer quotav1alpha1.ConsumerRef
	Key      string
	Sequence int64
	// Before, if set, is the reservation of another attempt at the same request, as it was before this one raised it.
	Before *ledger.Reservation
}

// OpenUpdate records an update under review. [Engine.ExpectUpdate] follows if it is admitted, and [Engine.CloseUpdate]
// if not.
func (e *Engine) OpenUpdate(uid, id types.UID) { e.updates.open(uid, id) }

// CloseUpdate records that an update was not admitted.
func (e *Engine) CloseUpdate(uid, id types.UID) { e.updates.end(uid, id) }

// Reserved records a reservation by an update of an object, see [Engine.ExpectUpdate].
func (e *Engine) Reserved(uid types.UID, r Reserved) {
	var former int64
	if r.Before != nil {
		former = r.Before.Sequence
	}
	e.updates.reserved(uid, r, former)
}

// haveEnded reports whether all updates behind a reservation have ended.
func (u *openUpdates) haveEnded(r ledgerstore.InFlight) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	updates := u.byUID[types.UID(ledgerstore.ObjectUID(r.Key))]
	if updates == nil || len(updates.open) > 0 {
		return false
	}
	sequence, isOurs := updates.sequences[reservationKey{r.Consumer, r.Key}]
	return isOurs && sequence == r.Sequence
}

// consumers returns the consumers of the reservations.
func (u *openUpdates) consumers(uid types.UID) []quotav1alpha1.ConsumerRef {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []quotav1alpha1.ConsumerRef
	if updates := u.byUID[uid]; updates != nil {
		for key := range updates.sequences {
			all = union(all, []quotav1alpha1.ConsumerRef{key.consumer})
		}
	}
	return all
}

// forget forgets the updates of an object. Their reservations then wait for their lifetime.
func (u *openUpdates) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byUID, uid)
}

// expire forgets the objects without an update since a time, except those to keep.
func (u *openUpdates) expire(before time.Time, keep func(types.UID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uid, updates := range u.byUID {
		if updates.since.Before(before) && !keep(uid) {
			delete(u.byUID, uid)
		}
	}
}
