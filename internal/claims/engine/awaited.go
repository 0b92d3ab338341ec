package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// claimReservations returns the reservations for an object that await its claims, and have none as far as this process
// has seen. The others await the object itself.
func (e *Engine) claimReservations(uid types.UID) []ledgerstore.InFlight {
	return slices.DeleteFunc(e.Store.ReservationsFor(string(uid)), func(r ledgerstore.InFlight) bool {
		return !r.AwaitsClaim() || e.Store.HasSeen(r)
	})
}

// endAwaited ends the pending requests for an object that are over without an effect.
func (e *Engine) endAwaited(ctx context.Context, o Object) error {
	var errs []error
	for _, pending := range e.Store.ReservationsFor(string(o.UID)) {
		if pending.Awaits == nil || pending.AwaitsClaim() || e.Store.HasSeen(pending) || !e.isOver(pending) {
			continue
		}

		switch {
		case pending.IsUnrecorded:
			e.Store.Record(pending.Consumer) // the ledger ends what it has
		case pending.Awaits.Kind == inventory.Claims:
			errs = append(errs, e.refuseLateWrite(ctx, pending))
		default:
			errs = append(errs, e.endWithoutEffect(ctx, o, pending))
		}
	}
	return errors.Join(errs...)
}

// endWithoutEffect ends a request that nothing can carry out any more: one look at the object shows whether it had an
// effect.
func (e *Engine) endWithoutEffect(ctx context.Context, o Object, pending ledgerstore.InFlight) error {
	hadEffect, err := e.mayHaveEffect(ctx, o, pending)
	if err == nil && !hadEffect {
		e.Store.EndPending(pending)
	}
	return err
}

// refuseLateWrite gives the claim of a pending grant or resize another version, which ends the request once it is
// observed. Bursar itself sends the write that the request awaits, so no time ends it: a process that stood still may
// send it at any moment. Then the claim is decided again.
func (e *Engine) refuseLateWrite(ctx context.Context, pending ledgerstore.InFlight) error {
	name, err := claims.ReferenceOf(pending.Claim)
	if err != nil {
		return err
	}

	claim, err := e.Client.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil // the inventory shows that
	case err != nil:
		return fmt.Errorf("read claim %s: %w", name, err)
	}

	version, err := ledger.ParseVersion(claim.ResourceVersion)
	if err != nil || string(claim.UID) != pending.Awaits.ID || version > pending.Awaits.After {
		return err
	}
	if err := e.Client.Touch(ctx, claim, time.Now()); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("change the version of claim %s: %w", name, err)
	}
	return nil
}

// isOver reports whether the API server has carried out a request, or can no longer do so.
func (e *Engine) isOver(pending ledgerstore.InFlight) bool {
	uid := types.UID(pending.Awaits.ID)
	switch {
	case time.Since(pending.KnownSince) >= e.Store.ReservationLifetime, e.gone.has(uid):
		return true
	case pending.Awaits.After > 0:
		return e.updates.haveEnded(pending)
	default:
		return e.ended.has(uid)
	}
}

// mayHaveEffect asks the API server whether a request that is over had an effect that the inventory will show.
func (e *Engine) mayHaveEffect(ctx context.Context, o Object, pending ledgerstore.InFlight) (bool, error) {
	intent, err := claims.IntentOf(pending.Claim)
	if err != nil {
		return false, err
	}
	live, err := e.Objects.Find(ctx, o.Kind, intent.Object)
	if err != nil {
		return false, fmt.Errorf("look for the effect of a request: %w", err)
	}
	return live != nil && live.UID == o.UID && hasChangedSince(live, pending), nil
}

// hasChangedSince reports whether an object has a version after the one under review.
func hasChangedSince(live *metav1.PartialObjectMetadata, pending ledgerstore.InFlight) bool {
	version, err := ledger.ParseVersion(live.ResourceVersion)
	return err != nil || version > pending.Awaits.After
}
