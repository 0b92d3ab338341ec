package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Process brings the claims and reservations of one object in line with whether it exists. While an update that was admitted
// may still be made, what was reserved for it stays, and the object comes back to the queue.
func (e *Engine) Process(ctx context.Context, o Object) error {
	if e.Objects.Presence(o.Kind, o.UID) == objectcache.Present {
		return e.processExisting(ctx, o)
	}
	// Somebody who read the object before it went may be making its claim.
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		if ledgerstore.IsAmendment(reservation.Key) {
			errs = append(errs, e.endAmendment(ctx, o, reservation))
		} else {
			errs = append(errs, e.processUnseen(ctx, o, reservation))
		}
	}
	for _, claim := range e.Claims.ForObject(o.UID) {
		if !claim.Deleting {
			errs = append(errs, e.removeOrphan(ctx, o, claim))
		}
	}
	return errors.Join(errs...)
}

// bind makes the claims of an object that exists, and has them follow it if it changes.
func (e *Engine) processExisting(ctx context.Context, o Object) error {
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return err
	}
	var errs []error
	follow := e.IsChanging(o.UID)
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		if isForChange(reservation) {
			follow = true // the change may not have been made yet
			errs = append(errs, e.endWithoutPolicy(ctx, reservation))
			continue
		}
		_, err := e.Materialize(ctx, reservation)
		errs = append(errs, err)
	}
	unlock()
	if follow {
		errs = append(errs, e.followChange(ctx, o))
	}
	return errors.Join(errs...)
}

// processUnseen handles a reservation whose object is not there: gone, or yet to come.
func (e *Engine) processUnseen(ctx context.Context, o Object, reservation ledgerstore.InFlight) error {
	if !e.IsGone(o.UID) {
		// By a clock that nobody sets; it may have been reserved long before that.
		if time.Since(reservation.KnownSince) < e.Store.ReservationLifetime {
			return nil
		}
		intent, err := claims.IntentOf(reservation.Claim)
		if err != nil {
			return err
		}
		exists, err := e.Objects.Lives(ctx, o.Kind, intent.Object, o.UID)
		if err != nil {
			return err
		}
		if exists {
			_, err := e.Materialize(ctx, reservation)
			return err
		}
	}
	return e.Expire(ctx, reservation)
}

// removeOrphan deletes a claim if its object is gone.
func (e *Engine) removeOrphan(ctx context.Context, o Object, claim *claimcache.Claim) error {
	if !e.IsGone(o.UID) {
		exists, err := e.Objects.Lives(ctx, o.Kind, claim.Object, o.UID)
		if err != nil || exists {
			return err
		}
	}
	return e.deleteClaim(ctx, claim.NamespacedName, claim.UID)
}
