package engine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
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

// retain ends the amendment of a claim. The claim retains its charges.
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

// endFormer ends the reservation for a change of a policy's claim, by an earlier version of Bursar. The claim decides
// whether the change happened.
func (e *Engine) endFormer(ctx context.Context, reservation ledgerstore.InFlight) error {
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
