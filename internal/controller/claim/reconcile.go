package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// reconcile does what one claim needs now.
func (c *Controller) reconcile(ctx context.Context, claim task) error {
	name := claim.NamespacedName
	known := c.Claims.Get(name)
	if known == nil || known.Consumer() != claim.consumer {
		c.decided(claim) // nobody waits for it any more as one of this consumer
	}
	switch {
	case known == nil:
		return nil
	case known.Deleting:
		c.decided(claim)
		if !known.Finalizer {
			return nil
		}
		return c.release(ctx, known)
	case known.Resizing, c.hasResizeInFlight(known):
		return c.resize(ctx, name, known.Consumer())
	case known.State == claimcache.Granted:
		return nil
	default:
		_, err := c.decide(ctx, name, known.Consumer())
		return err
	}
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
		wasWaiting := claimcache.StateOf(claim) == claimcache.Waiting
		claims.Deny(claim, c.Catalog, decision.Shortages, time.Now())
		if err := c.report(ctx, claim); err != nil || wasWaiting {
			return err
		}
		c.reportWaiting(claim)
		return nil
	default:
		err := message.Impossible(claim.Spec.ConsumerRef, decision.Code)
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			claims.DenyFull(claim, full, time.Now())
		} else {
			claims.Reject(claim, err.Error(), time.Now())
		}
	}
	return c.report(ctx, claim)
}

// reportWaiting records an event on a claim that has to wait from now on.
func (c *Controller) reportWaiting(claim *quotav1alpha1.ResourceClaim) {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if c.Events == nil || granted == nil {
		return
	}
	regarding := &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	c.Events.Eventf(regarding, nil, corev1.EventTypeWarning, quotav1alpha1.ReasonQuotaExceeded, "Decide", "%s", granted.Message)
}

func (c *Controller) report(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := c.Client.UpdateStatus(ctx, claim); err != nil {
		return fmt.Errorf("update the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
