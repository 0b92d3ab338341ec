package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Process reconciles the claims and reservations of one object with its existence.
func (e *Engine) Process(ctx context.Context, o Object) error {
	change := e.changes.of(o.UID)
	if err := e.endAwaited(ctx, o); err != nil {
		return err
	}
	if change != nil {
		e.endChange(o.UID, change)
	}
	if e.Objects.Presence(o.Kind, o.UID) == objectcache.Present {
		return e.processExisting(ctx, o)
	}

	// Another goroutine may have read the object before its deletion, and may be making its claim.
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return err
	}
	defer unlock()

	var errs []error
	for _, reservation := range e.claimReservations(o.UID) {
		errs = append(errs, e.processUnseen(ctx, o, reservation))
	}
	for _, claim := range e.Claims.ForObject(o.UID) {
		if !claim.Deleting {
			errs = append(errs, e.removeOrphan(ctx, o, claim))
		}
	}
	errs = append(errs, e.removeTwins(ctx, o))
	return errors.Join(errs...)
}

// processExisting makes the claims of an existing object.
func (e *Engine) processExisting(ctx context.Context, o Object) error {
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return err
	}
	defer unlock()

	var errs []error
	for _, reservation := range e.claimReservations(o.UID) {
		errs = append(errs, e.Materialize(ctx, reservation))
		e.concludeEnd(reservation, o)
	}
	errs = append(errs, e.removeTwins(ctx, o))
	return errors.Join(errs...)
}

// processUnseen processes the reservation of an object outside the cache: deleted, or still to appear.
func (e *Engine) processUnseen(ctx context.Context, o Object, reservation ledgerstore.InFlight) error {
	if !e.IsGone(o.UID) {
		// The monotonic clock of this process decides; the reservation may be much older.
		if !e.ended.has(o.UID) && time.Since(reservation.KnownSince) < e.Store.ReservationLifetime {
			return nil
		}
		intent, err := claims.IntentOf(reservation.Claim)
		if err != nil {
			return err
		}
		exists, err := e.Objects.IsAlive(ctx, o.Kind, intent.Object, o.UID)
		if err != nil {
			return err
		}
		if exists {
			e.concludeEnd(reservation, o)
			return e.Materialize(ctx, reservation)
		}
	}
	return e.expire(ctx, o, reservation)
}
