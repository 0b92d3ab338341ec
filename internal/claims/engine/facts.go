package engine

import (
	"context"
	"fmt"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// facts are the facts about a policy and an object.
type facts struct {
	// isPending: an admitted update may still come, or somebody is making the claim of the create. The other facts are
	// unknown then.
	isPending bool
	// held is the claim of the object, or nil.
	held *quotav1alpha1.ResourceClaim
	// amendment is the amendment of the claim. reserved are the reservations for a future claim.
	amendment *ledgerstore.InFlight
	reserved  []ledgerstore.InFlight
}

// gather collects the facts about an object at a version.
func (e *Engine) gather(ctx context.Context, p *catalog.Policy, o evaluator.Object, version string) (facts, error) {
	label := claims.LabelValue(p.Name)
	f := e.inFlight(o, label, version)
	if f.isPending {
		return f, nil
	}
	var err error
	if f.held, err = e.Client.OfObject(ctx, e.Claims.ForObject(o.UID), label); err != nil {
		return f, fmt.Errorf("read the claim of %s %s: %w", o.Kind.Kind, o.Name, err)
	}
	return f, nil
}

// inFlight collects the reservations for a policy and an object that is about to change.
func (e *Engine) inFlight(o evaluator.Object, policy, version string) (f facts) {
	for _, reservation := range e.Store.ReservationsFor(string(o.UID)) {
		if by, _ := ledgerstore.SplitObjectKey(reservation.Key); by != policy {
			continue
		}
		intent, err := claims.IntentOf(reservation.Claim)
		mayCome := err == nil && intent.Base != "" && claims.MayChange(version, intent.Base) &&
			time.Since(reservation.KnownSince) < e.Store.ReservationLifetime && !e.updates.haveEnded(reservation)
		switch {
		case ledgerstore.IsAmendment(reservation.Key):
			f.amendment = &reservation
		case intent.Base == "":
			f.isPending = true
			return f
		default:
			f.reserved = append(f.reserved, reservation)
		}
		f.isPending = f.isPending || mayCome
	}
	return f
}

// claimState returns the state of the claim.
func (f *facts) claimState(store *ledgerstore.Store) claimState {
	held := f.held
	switch {
	case held == nil && f.amendment != nil:
		return claimLost
	case held == nil:
		return claimMissing
	}
	isHolding, isWithdrawn := holdsCharge(held, store), store.IsWithdrawn(held.Spec.ConsumerRef, claims.SequenceOf(held))
	switch {
	case f.madeFrom() != nil:
		return claimUnfinished
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

// rereadHeld reads a claim of an object again. It returns nil if the claim no longer holds its charge. The caller
// holds the lock of the object.
func (e *Engine) rereadHeld(ctx context.Context, held *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := e.Client.Reread(ctx, held)
	if claim == nil || err != nil || !holdsCharge(claim, e.Store) {
		return nil, err
	}
	return claim, nil
}

// madeFrom returns the claim's own reservation, if it is in flight, or nil.
func (f *facts) madeFrom() *ledgerstore.InFlight {
	for i := range f.reserved {
		r := &f.reserved[i]
		if r.Consumer == f.held.Spec.ConsumerRef && r.Sequence == claims.SequenceOf(f.held) {
			return r
		}
	}
	return nil
}

// demandOf returns the kind of a policy's demand, or demandUnknown for a failed evaluation.
func (f *facts) demandOf(demanded *evaluator.Claim, err error) demand {
	switch {
	case err != nil:
		return demandUnknown
	case demanded == nil:
		return demandNone
	case f.held != nil && demanded.Consumer != f.held.Spec.ConsumerRef:
		return demandElsewhere
	default:
		return demandHere
	}
}
