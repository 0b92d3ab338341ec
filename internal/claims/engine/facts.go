package engine

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// stateOf returns the state of the object's claim of a policy, and the claim if there is one. The caller holds the lock
// of the object.
func (e *Engine) stateOf(ctx context.Context, p *catalog.Policy, o evaluator.Object) (claimState, *quotav1alpha1.ResourceClaim, error) {
	label := claims.LabelValue(p.Name)
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		if by, _ := ledgerstore.SplitObjectKey(reservation.Key); by == label {
			return claimPending, nil, nil
		}
	}
	held, err := e.Client.OfObject(ctx, e.Claims.ForObject(o.UID), label)
	if err != nil {
		return 0, nil, fmt.Errorf("read the claim of %s %s: %w", o.Kind.Kind, o.Name, err)
	}
	return stateOfClaim(held, e.Store), held, nil
}

// stateOfClaim returns the state of a claim without a reservation in flight. held is nil if there is no claim.
func stateOfClaim(held *quotav1alpha1.ResourceClaim, store *ledgerstore.Store) claimState {
	if held == nil {
		return claimMissing
	}
	isHolding, isWithdrawn := holdsCharge(held, store), store.IsWithdrawn(held.Spec.ConsumerRef, claims.SequenceOf(held))
	switch {
	case claims.IsSuperseded(held) && held.DeletionTimestamp == nil:
		return claimSuperseded
	case held.DeletionTimestamp != nil && (isWithdrawn || !isHolding):
		return claimDeleting
	case !isHolding:
		return claimUncharged
	case isWithdrawn:
		return claimWithdrawn
	default:
		return claimSettled
	}
}

// holdsCharge reports whether a claim of an object holds its charge in the ledger. The caller holds the lock of the
// object.
func holdsCharge(claim *quotav1alpha1.ResourceClaim, store *ledgerstore.Store) bool {
	return claims.HoldsCharge(claim) && !store.IsReleased(claim.Spec.ConsumerRef, string(claim.UID))
}
