package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// claimDelayMax is the age of an object at which a claim missing in the cache no longer counts as on its way.
const claimDelayMax = 30 * time.Second

// ErrUnsettled means that somebody is making, changing or removing the claim of an object right now.
var ErrUnsettled = errors.New("the usage of the object is still being recorded")

// Update is an update of an object that changes the demand of a policy.
type Update struct {
	Object evaluator.Object
	// Created is the creation time of the object.
	Created time.Time
	// Base is the version of the object before the update. Once the object has another version, the API server has
	// either made the update or can no longer make it.
	Base   string
	Policy *catalog.Policy
	// Before and After are the demands of the policy, or nil for none.
	Before, After *evaluator.Claim
	// Actor is the user behind the update, if known.
	Actor string
	// Spare is what the update has to leave to others.
	Spare ledgerstore.Spare
}

// charges are the demanded charges after the update.
func (u *Update) charges() []ledger.Charge {
	if u.After == nil {
		return nil
	}
	return u.After.Charges
}

// Reserved identifies a reservation for an update.
type Reserved struct {
	Consumer quotav1alpha1.ConsumerRef
	Key      string
	Sequence int64
	// Before, if set, is the reservation of another attempt at the same request, as it was before this one raised it.
	Before *ledger.Reservation
}

// PrepareUpdate reserves the demand of an update. If the object has a claim of the same consumer, it reserves the
// increase, or nothing if the claim has to shrink or go. Otherwise it reserves the whole demand. It records a
// decrease in the ledger too, so every replica knows that the claim has to follow. With overdraft it reserves
// regardless of the limits. In a dry run it only decides. The decision has no code if there is nothing to reserve. It
// returns [ErrUnsettled] if the claim is changing. The caller holds the lock of the object.
func (e *Engine) PrepareUpdate(ctx context.Context, u Update, isDryRun, overdraft bool) (ledger.Decision, Reserved, error) {
	held, err := e.Held(ctx, u)
	if err != nil || held == nil && u.After == nil {
		return ledger.Decision{}, Reserved{}, err
	}
	request := ledgerstore.Request{Overdraft: overdraft, Extend: claims.LaterIntent, Spare: u.Spare}
	if isDryRun {
		request.DryRun = ledgerstore.Dry
	}
	var reserved Reserved
	if held != nil && (u.After == nil || u.After.Consumer == held.Spec.ConsumerRef) {
		reserved = Reserved{Consumer: held.Spec.ConsumerRef, Key: ledgerstore.AmendmentKey(claims.LabelValue(u.Policy.Name), string(u.Object.UID))}
		request.Verify = func(ctx context.Context) ([]ledger.Reservation, error) {
			return single(e.amendmentFor(ctx, u, reserved.Key, held))
		}
	} else {
		reserved = Reserved{Consumer: u.After.Consumer, Key: u.After.Key}
		request.Reservations = []ledger.Reservation{reservationFor(u)}
	}
	outcome, err := e.Store.Apply(ctx, reserved.Consumer, request)
	decision := outcome.Single()
	reserved.Sequence = decision.Sequence
	if err == nil && decision.Code == ledger.Admitted && !isDryRun {
		e.updates.reserved(u.Object.UID, reserved, outcome.Former)
	}
	return decision, reserved, err
}

// Held reads the claim of the policy for the object, or returns nil if there is none. It returns [ErrUnsettled] if the
// claim is changing. The caller holds the lock of the object.
func (e *Engine) Held(ctx context.Context, u Update) (*quotav1alpha1.ResourceClaim, error) {
	switch settled, err := e.IsSettled(ctx, u); {
	case err != nil:
		return nil, err
	case !settled:
		return nil, ErrUnsettled
	}
	known, err := e.claimsOf(ctx, u)
	if err != nil {
		return nil, err
	}
	held, err := e.Client.OfObject(ctx, known, claims.LabelValue(u.Policy.Name))
	if apierrors.IsNotFound(err) || held != nil && !holdsCharge(held, e.Store) {
		return nil, ErrUnsettled
	}
	return held, err
}

// reservationFor returns a reservation of the whole demand after the update.
func reservationFor(u Update) ledger.Reservation {
	intent := u.After.Intent
	intent.Base = u.Base
	return ledger.Reservation{Key: u.After.Key, ReservedAt: time.Now().Unix(), Charges: u.After.Charges, Claim: intent.Encode(), Subject: intent.Subject(), Actor: u.Actor}
}

// amendmentFor returns the amendment to make the object's claim follow the update.
func (e *Engine) amendmentFor(ctx context.Context, u Update, key string, held *quotav1alpha1.ResourceClaim) (*ledger.Reservation, error) {
	claim, err := e.rereadHeld(ctx, held)
	if err != nil {
		return nil, err
	}
	if claim == nil {
		return nil, fmt.Errorf("claim %s/%s no longer exists: %w", held.Namespace, held.Name, ErrUnsettled)
	}
	amendment, err := claims.Amendment(claim, key, u.charges(), claims.Intent{Kind: u.Object.Kind, Object: u.Object.Name}, u.Base)
	if err == nil {
		amendment.Actor = u.Actor
	}
	return amendment, err
}

// IsSettled reports whether the object's claim holds exactly the charges of the policy: nobody is making or removing
// a claim, and the cache has the claim of a new object. The caller holds the lock of the object.
func (e *Engine) IsSettled(ctx context.Context, u Update) (bool, error) {
	policy, uid := claims.LabelValue(u.Policy.Name), string(u.Object.UID)
	known, err := e.claimsOf(ctx, u)
	if err != nil {
		return false, err
	}
	held := latestOf(known, policy)
	for _, reservation := range e.recordedFor(uid) {
		if reservation.Key != ledgerstore.ObjectKey(policy, uid) {
			continue
		}
		// A reservation for another attempt of an update is extended, unless a claim was made from it.
		intent, err := claims.IntentOf(reservation.Claim)
		if err != nil || intent.Base == "" || held != nil && held.Consumer() == reservation.Consumer {
			return false, nil
		}
		if isMade, err := e.IsMade(ctx, reservation); isMade || err != nil {
			return false, err
		}
	}
	if held == nil {
		return u.Before == nil || time.Since(u.Created) > claimDelayMax, nil
	}
	return mayHoldCharge(held), nil
}

// latestOf returns the last claim of a policy, or nil.
func latestOf(known []*claimcache.Claim, policy string) *claimcache.Claim {
	for _, claim := range slices.Backward(known) {
		if claim.Policy() == policy {
			return claim
		}
	}
	return nil
}

// mayHoldCharge reports whether a claim holds its charge, as far as the cache knows. See [claims.HoldsCharge].
func mayHoldCharge(held *claimcache.Claim) bool {
	stays := !held.Deleting || held.Finalizer && !held.Superseded
	return held.State == claimcache.Granted && stays
}

// recordedFor returns the reservations for an object, and has the store record the missing ones: a change need not
// wait for the next commit.
func (e *Engine) recordedFor(uid string) []ledgerstore.InFlight {
	reservations := e.Store.ReservationsFor(uid)
	for i := range reservations {
		if reservations[i].IsUnrecorded {
			e.Store.Record(reservations[i].Consumer)
		}
	}
	return reservations
}

// claimsOf returns the object's claims of all policies. While the cache is still loading all claims, it reads the
// claim of one policy by its name: without the list every object would seem to have none.
func (e *Engine) claimsOf(ctx context.Context, u Update) ([]*claimcache.Claim, error) {
	if !e.Claims.HasSynced() && u.Before != nil {
		held, err := e.Lookup(ctx, u.Before)
		if err != nil {
			return nil, err
		}
		if held != nil {
			return []*claimcache.Claim{claimcache.Compact(held)}, nil
		}
	}
	if err := e.Claims.WaitForSync(ctx); err != nil {
		return nil, err
	}
	return e.Claims.ForObject(u.Object.UID), nil
}
