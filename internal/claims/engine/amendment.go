package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// SettleAmendment ends an amendment whose claim already holds its new charges. If the ledger lacks the claim's former
// charges, it still ends the amendment and leaves the difference to the auditor. It reports false if no amendment
// with that sequence is in flight: another change has extended it, or another process has ended it.
func (e *Engine) SettleAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) (bool, error) {
	settled, err := e.Store.SettleAmendment(ctx, consumer, key, sequence, after)
	if settled || err != nil {
		return settled, err
	}
	if !e.IsInFlight(ledgerstore.InFlight{Consumer: consumer, Reservation: ledger.Reservation{Key: key, Sequence: sequence}}) {
		return false, nil
	}
	e.Log.Info("the ledger lacked the amounts of a claim before its amendment", "amendment", key, "consumer", consumer.Name)
	return true, e.Store.Cancel(ctx, consumer, key, sequence)
}

// amend changes a claim to the demanded charges. Until the last step, the amendment in the ledger records that the
// ledger still has the earlier charges. An earlier attempt may have done each step already.
//
// The engine changes the claim, and then the ledger, only after it has read the object again. So the last process to
// change the claim has seen the last version of the object, or leaves the amendment in flight.
func (e *Engine) amend(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured, demanded *evaluator.Claim, f facts) (Result, error) {
	held := f.held
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return 0, err
	}
	if f.amendment == nil && evaluator.SameCharges(charges, demanded.Charges) {
		return Unchanged, nil
	}
	key := ledgerstore.AmendmentKey(claims.PolicyOf(held), held.Annotations[quotav1alpha1.AnnotationResourceUID])
	sequence, err := e.openAmendment(ctx, p, live, demanded, f, key)
	if sequence == 0 || err != nil {
		return Pending, err
	}
	if err := e.Client.Amend(ctx, held, claims.RequestsOf(demanded.Charges), sequence, func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, e.Catalog, time.Now())
	}); err != nil {
		return 0, transient(fmt.Errorf("change the amounts of claim %s/%s: %w", held.Namespace, held.Name, err))
	}
	if exists, err := e.confirm(ctx, p, live, demanded); !exists || err != nil {
		return Pending, transient(err)
	}
	isEnded, err := e.SettleAmendment(ctx, demanded.Consumer, key, sequence, demanded.Charges)
	switch {
	case err != nil:
		return 0, transient(err)
	case isEnded:
		return Amended, nil
	default:
		return Pending, nil // it continues under another sequence
	}
}

// openAmendment returns the sequence of the amendment in flight, or reserves the change of a claim's charges,
// regardless of the limits. It returns 0 if the object is gone, or if another process has admitted a change in between.
func (e *Engine) openAmendment(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured, demanded *evaluator.Claim, f facts, key string) (sequence int64, err error) {
	if f.amendment != nil {
		// Another process may have followed a later version and ended it.
		exists, err := e.confirm(ctx, p, live, demanded)
		if !exists || err != nil {
			return 0, transient(err)
		}
		return f.amendment.Sequence, nil
	}
	amended := func(ctx context.Context) ([]ledger.Reservation, error) {
		claim, err := e.rereadHeld(ctx, f.held)
		if err != nil {
			return nil, err
		}
		if claim == nil || claim.ResourceVersion != f.held.ResourceVersion {
			return nil, apierrors.NewConflict(quotav1alpha1.Resource("resourceclaims"), f.held.Name, errors.New("it has changed or no longer exists"))
		}
		if exists, err := e.confirm(ctx, p, live, demanded); !exists || err != nil {
			return nil, err
		}
		return single(claims.Amendment(claim, key, demanded.Charges, demanded.Intent, ""))
	}
	outcome, err := e.Store.Apply(ctx, demanded.Consumer, ledgerstore.Request{Verify: amended, Overdraft: true, Extend: claims.LaterIntent})
	switch decision := outcome.Single(); {
	case err != nil:
		return 0, transient(err)
	case decision.Code == 0 || decision.Existing:
		return 0, nil
	case decision.Code != ledger.Admitted:
		return 0, message.Impossible(demanded.Consumer, decision.Code)
	default:
		return decision.Sequence, nil
	}
}

// retain ends the amendment of a claim with an unknown demand. The claim retains its charges.
func (e *Engine) retain(ctx context.Context, held *quotav1alpha1.ResourceClaim, amendment *ledgerstore.InFlight) error {
	if held == nil || amendment == nil {
		return nil
	}
	charges, err := claims.Charges(held.Spec.Requests)
	if err != nil {
		return err
	}
	// The sequence only keeps a late write of the claim from taking effect. So a denial of it is no reason to wait.
	err = e.Client.Amend(ctx, held, held.Spec.Requests, amendment.Sequence, func(*quotav1alpha1.ResourceClaim) {})
	if err != nil && !isDenial(err) && !apierrors.IsNotFound(err) {
		return transient(fmt.Errorf("retain the amounts of claim %s/%s: %w", held.Namespace, held.Name, err))
	}
	_, err = e.SettleAmendment(ctx, amendment.Consumer, amendment.Key, amendment.Sequence, charges)
	return transient(err)
}

// amended returns the claim under an amendment, or nil if somebody removed the claim. It reads the API server,
// because the cache may not have the claim yet. If an amendment ends before its claim changes, the charges of the
// claim are unknown.
func (e *Engine) amended(ctx context.Context, amendment ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	intent, err := claims.IntentOf(amendment.Claim)
	if err != nil {
		return nil, err
	}
	claim, err := e.Client.Get(ctx, intent.Claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s for its amendment: %w", intent.Claim, err)
	}
	policy, uid := ledgerstore.SplitObjectKey(amendment.Key)
	if claims.PolicyOf(claim) != policy || claim.Annotations[quotav1alpha1.AnnotationResourceUID] != uid {
		return nil, nil // another claim has its name
	}
	return claim, nil
}

// endWithoutPolicy ends the reservation for a change of a removed policy. The claim decides whether the change
// happened.
func (e *Engine) endWithoutPolicy(ctx context.Context, reservation ledgerstore.InFlight) error {
	policy, _ := ledgerstore.SplitObjectKey(reservation.Key)
	for _, p := range e.Catalog.PoliciesOf(kindOf(reservation)) {
		if claims.LabelValue(p.Name) == policy && p.FollowsUpdates() {
			return nil
		}
	}
	if time.Since(reservation.KnownSince) < e.Store.ReservationLifetime {
		return nil
	}
	if !ledgerstore.IsAmendment(reservation.Key) {
		_, err := e.cancelUnmade(ctx, reservation)
		return err
	}
	held, err := e.amended(ctx, reservation)
	if err != nil {
		return err
	}
	if held == nil {
		return e.Store.Cancel(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	}
	return e.retain(ctx, held, &reservation)
}

// findLost reports whether the claim of an amendment exists although the cache does not have it. If it does not exist,
// the amendment ends.
func (e *Engine) findLost(ctx context.Context, amendment ledgerstore.InFlight) (bool, error) {
	claim, err := e.amended(ctx, amendment)
	if claim != nil || err != nil {
		return true, err
	}
	return false, e.Store.Cancel(ctx, amendment.Consumer, amendment.Key, amendment.Sequence)
}

// endAmendment ends an amendment of a deleted object and a deleted claim. Otherwise the amendment ends with its claim.
func (e *Engine) endAmendment(ctx context.Context, o Object, amendment ledgerstore.InFlight) error {
	if !e.IsGone(o.UID) {
		intent, err := claims.IntentOf(amendment.Claim)
		if err != nil {
			return err
		}
		if exists, err := e.Objects.IsAlive(ctx, o.Kind, intent.Object, o.UID); exists || err != nil {
			return err
		}
	}
	if claim, err := e.amended(ctx, amendment); claim != nil || err != nil {
		return err
	}
	if err := e.Store.Cancel(ctx, amendment.Consumer, amendment.Key, amendment.Sequence); err != nil {
		return err
	}
	e.Store.ReleaseDone(amendment.Consumer, amendment.Key)
	return nil
}

// single returns the only reservation of a request.
func single(r *ledger.Reservation, err error) ([]ledger.Reservation, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return []ledger.Reservation{*r}, nil
}
