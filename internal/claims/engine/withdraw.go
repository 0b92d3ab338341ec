package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Expire ends the reservation of a deleted or missing object, and removes its claim if there is one.
func (e *Engine) Expire(ctx context.Context, reservation ledgerstore.InFlight) error {
	made, err := e.withdraw(ctx, reservation)
	if err != nil {
		return err
	}
	e.Store.ReleaseDone(reservation.Consumer, reservation.Key)
	if made == nil {
		return nil
	}
	return e.deleteClaim(ctx, types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, made.UID)
}

// withdraw ends a reservation. If somebody made a claim from it all the same, maybe another process at this moment,
// withdraw returns the claim. The ledger no longer has its charge, and the caller has to remove it.
func (e *Engine) withdraw(ctx context.Context, reservation ledgerstore.InFlight) (made *quotav1alpha1.ResourceClaim, err error) {
	if reservation.IsOwn && !e.sent.has(reservation) {
		return nil, e.Store.Cancel(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	}
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return nil, err
	}
	isWithdrawn, err := e.Store.Withdraw(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	if !isWithdrawn || err != nil {
		return nil, err // if the reservation had ended before, the work on its claim is done
	}
	return e.findClaim(ctx, claim, reservation)
}

// dedupe resolves a reservation of an object with a claim of another reservation. If that claim has a charge, there
// were two reviews of the create, and dedupe ends the reservation. If no ledger has a charge for it, dedupe removes
// the claim.
func (e *Engine) dedupe(ctx context.Context, stored *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) error {
	var isReserved, isWithdrawn bool
	err := e.Store.View(ctx, reservation.Consumer, func(current *ledger.Ledger) {
		held, ok := current.Reservation(reservation.Key)
		isReserved = ok && held.Sequence == reservation.Sequence
		isWithdrawn = current.IsWithdrawn(claims.SequenceOf(stored))
	})
	switch {
	case err != nil || !isReserved:
		return err
	case isWithdrawn || claimcache.StateOf(stored) != claimcache.Granted:
		if err := e.supersede(ctx, stored); err != nil {
			return err
		}
		return fmt.Errorf("claim %s/%s: %w", stored.Namespace, stored.Name, ErrEarlierClaim)
	}
	made, err := e.withdraw(ctx, reservation)
	if made == nil || err != nil {
		return err
	}
	return e.supersede(ctx, made)
}

// Reinspect reads the ledger of a claim's consumer, and enqueues the object of the claim: [Engine.Process] removes the
// claim if its sequence was withdrawn.
func (e *Engine) Reinspect(ctx context.Context, claim *claimcache.Claim) error {
	if err := e.Store.View(ctx, claim.Consumer(), func(*ledger.Ledger) {}); err != nil {
		return err
	}
	e.queue.Add(Object{claim.Kind(), claim.ObjectUID})
	return nil
}

// removeWithdrawn removes a claim with a withdrawn sequence.
func (e *Engine) removeWithdrawn(ctx context.Context, known *claimcache.Claim) error {
	claim, err := e.Client.Get(ctx, known.NamespacedName)
	switch {
	case apierrors.IsNotFound(err) || err == nil && claim.UID != known.UID:
		return nil
	case err != nil:
		return fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
	}
	return e.supersede(ctx, claim)
}

// supersede marks and deletes a claim. Another claim may replace it.
func (e *Engine) supersede(ctx context.Context, held *quotav1alpha1.ResourceClaim) error {
	if !claims.IsSuperseded(held) {
		if err := e.Client.Supersede(ctx, held); err != nil {
			return err
		}
	}
	return e.deleteClaim(ctx, types.NamespacedName{Namespace: held.Namespace, Name: held.Name}, held.UID)
}

func (e *Engine) deleteClaim(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	err := e.Client.Delete(ctx, name, uid)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // somebody deleted it, and another claim may have its name now
	}
	if err != nil {
		return fmt.Errorf("delete claim %s of a deleted object: %w", name, err)
	}
	if e.Claims.HasSynced() {
		return nil
	}
	deleted, err := e.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the deleted claim %s: %w", name, err)
	}
	e.Claims.RecordWrite(deleted)
	return nil
}
