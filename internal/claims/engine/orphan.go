package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// expire ends the reservation of an object that was deleted or never came. If the object existed, there may be a claim:
// that one goes, and the ledger ends the reservation with its observation. A claim by a process that stood still may
// come even later. It counts until somebody sees that it has no object.
func (e *Engine) expire(ctx context.Context, o Object, reservation ledgerstore.InFlight) error {
	if e.IsGone(o.UID) {
		claim, err := claims.FromReservation(reservation)
		if err != nil {
			return err
		}
		made, err := e.find(ctx, claim, reservation, claim.Namespace, e.SystemNamespace)
		if err != nil {
			return err
		}
		if made != nil {
			return e.deleteClaim(ctx, types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, made.UID)
		}
	}
	e.Store.EndPending(reservation)
	return nil
}

// removeOrphan deletes a claim if its object was deleted.
func (e *Engine) removeOrphan(ctx context.Context, o Object, claim *claimcache.Claim) error {
	if !e.IsGone(o.UID) {
		exists, err := e.Objects.IsAlive(ctx, o.Kind, claim.Object, o.UID)
		if err != nil || exists {
			return err
		}
	}
	return e.deleteClaim(ctx, claim.NamespacedName, claim.UID)
}

// removeTwins removes all claims of an object but one for each policy: the oldest, which is the one that counts. There
// is another one if a process made the claim in the system namespace while an earlier attempt at its own namespace was
// still on its way.
func (e *Engine) removeTwins(ctx context.Context, o Object) error {
	all := e.Claims.ForObject(o.UID)
	slices.SortFunc(all, func(a, b *claimcache.Claim) int {
		return cmp.Or(cmp.Compare(a.Policy(), b.Policy()), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i, claim := range all {
		if i == 0 || all[i-1].Policy() != claim.Policy() {
			continue
		}
		if err := e.supersede(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// supersede removes a claim although its object exists.
func (e *Engine) supersede(ctx context.Context, known *claimcache.Claim) error {
	claim, err := e.Client.Get(ctx, known.NamespacedName)
	switch {
	case apierrors.IsNotFound(err) || err == nil && claim.UID != known.UID:
		return nil
	case err != nil:
		return fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
	}
	if !claims.IsSuperseded(claim) {
		if err := e.Client.Supersede(ctx, claim); err != nil {
			return err
		}
	}
	return e.deleteClaim(ctx, known.NamespacedName, known.UID)
}

// deleteClaim deletes a claim. Somebody else may have done so, and another claim may have its name now.
func (e *Engine) deleteClaim(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	err := e.Client.Delete(ctx, name, uid)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete claim %s of a deleted object: %w", name, err)
	}
	return nil
}
