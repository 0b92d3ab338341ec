package claim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/explain"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// reconcile does what one claim needs now.
func (c *Controller) reconcile(ctx context.Context, name types.NamespacedName) error {
	known := c.Claims.Get(name)
	switch {
	case known == nil:
		return nil
	case known.Deleting:
		if !known.Finalizer {
			return nil
		}
		return c.release(ctx, known)
	case known.State == claimcache.Granted:
		return nil
	default:
		return c.decide(ctx, name)
	}
}

// release gives back what a claim holds, and then lets the claim go.
func (c *Controller) release(ctx context.Context, known *claimcache.Claim) error {
	var live *quotav1alpha1.ResourceClaim
	var holding *ledgerstore.Holding
	drifted, err := c.Store.Release(ctx, known.Consumer(), func(ctx context.Context) (*ledgerstore.Holding, error) {
		var err error
		if live, err = c.Client.Get(ctx, known.NamespacedName); apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
		}
		if live.UID != known.UID || !claimcache.HasFinalizer(live) {
			live = nil
			return nil, nil
		}
		holding, err = holdingOf(live)
		return holding, err
	})
	if err != nil {
		return fmt.Errorf("release claim %s: %w", known.NamespacedName, err)
	}
	c.Store.ReleaseDone(known.Consumer(), string(known.UID))
	if holding != nil {
		c.Store.ReleaseDone(known.Consumer(), holding.Key)
	}
	if drifted {
		c.Log.Info("the charge of a claim was not in the books", "claim", known.NamespacedName.String())
	}
	if live == nil {
		return nil
	}
	err = c.Client.RemoveFinalizer(ctx, live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let claim %s go: %w", known.NamespacedName, err)
	}
	return nil
}

// holdingOf tells what a claim may hold in the books.
func holdingOf(claim *quotav1alpha1.ResourceClaim) (*ledgerstore.Holding, error) {
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	key, sequence := keyOf(claim)
	return &ledgerstore.Holding{
		ClaimUID: string(claim.UID),
		Key:      key,
		Sequence: sequence,
		Granted:  claimcache.StateOf(claim) == claimcache.Granted,
		Charges:  charges,
	}, nil
}

// keyOf names the reservation that a claim was, or will be, made from. Sequence 0 is any.
func keyOf(claim *quotav1alpha1.ResourceClaim) (key string, sequence int64) {
	if claimcache.IsFromPolicy(claim) {
		sequence, err := strconv.ParseInt(claim.Annotations[quotav1alpha1.AnnotationReservation], 10, 64)
		if err == nil {
			return ledgerstore.ObjectKey(claims.PolicyOf(claim), claim.Annotations[quotav1alpha1.AnnotationResourceUID]), sequence
		}
	}
	return ledgerstore.ClaimKey(string(claim.UID)), 0
}

// decide decides one claim and records the result in its status.
func (c *Controller) decide(ctx context.Context, name types.NamespacedName) error {
	claim, err := c.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claimcache.StateOf(claim) == claimcache.Granted {
		return nil
	}
	reservation, err := c.reservationOf(claim)
	if err != nil {
		claims.Reject(claim, err.Error(), time.Now())
		return c.report(ctx, claim)
	}
	decision, err := c.Store.Reserve(ctx, claim.Spec.ConsumerRef, reservation)
	if err != nil {
		return fmt.Errorf("decide claim %s: %w", name, err)
	}
	return c.conclude(ctx, claim, reservation.Key, decision)
}

// reservationOf is what a claim asks of its consumer's ledger, or why it cannot be asked.
func (c *Controller) reservationOf(claim *quotav1alpha1.ResourceClaim) (ledger.Reservation, error) {
	if err := c.Catalog.CheckClaim(&claim.Spec); err != nil {
		return ledger.Reservation{}, err
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return ledger.Reservation{
		Key:        ledgerstore.ClaimKey(string(claim.UID)),
		ReservedAt: time.Now().Unix(),
		Charges:    charges,
		Claim:      claims.Reference(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}),
	}, nil
}

// conclude records a decision in the claim's status and settles it if it was admitted.
func (c *Controller) conclude(ctx context.Context, claim *quotav1alpha1.ResourceClaim, key string, decision ledger.Decision) error {
	switch decision.Code {
	case ledger.Admitted:
		claims.Grant(claim, c.Catalog, time.Now())
		if err := c.report(ctx, claim); err != nil {
			return err
		}
		c.Store.Settle(claim.Spec.ConsumerRef, key, decision.Sequence)
		return nil
	case ledger.Exceeded:
		claims.Deny(claim, c.Catalog, decision.Shortages, time.Now())
	default:
		claims.Reject(claim, explain.Impossible(claim.Spec.ConsumerRef, decision.Code).Error(), time.Now())
	}
	return c.report(ctx, claim)
}

func (c *Controller) report(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := c.Client.UpdateStatus(ctx, claim); err != nil {
		return fmt.Errorf("update the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
