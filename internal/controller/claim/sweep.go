package claim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// sweep looks for reservations of claims created directly that were not concluded.
func (c *Controller) sweep(ctx context.Context) {
	for _, reservation := range c.Store.Reservations() {
		if !c.Keeps.Of(reservation.Consumer) || ledgerstore.ObjectUID(reservation.Key) != "" || time.Since(time.Unix(reservation.ReservedAt, 0)) < sweepAge {
			continue
		}
		if err := c.finish(ctx, reservation); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "will try again", "reservation", reservation.Key)
		}
	}
}

// sweepReleased forgets released claims that went away unnoticed, while no process watched, and withdrawn
// reservations whose claims are gone.
func (c *Controller) sweepReleased(ctx context.Context) {
	for consumer, ids := range c.Store.ReleasedLongAgo(sweepAge) {
		if !c.Keeps.Of(consumer) {
			continue
		}
		existing, err := c.Client.RecordedAs(ctx, consumer)
		if err != nil {
			if ctx.Err() == nil {
				c.Log.Error(err, "will try again", "consumer", consumer.Kind+"/"+consumer.Name)
			}
			continue
		}
		for _, id := range ids {
			if !existing[id] {
				c.Store.Forget(consumer, id)
			}
		}
	}
}

// isOf tells whether a reservation is one of a claim's.
func isOf(reservation ledgerstore.Pending, claim *quotav1alpha1.ResourceClaim) bool {
	uid := string(claim.UID)
	return reservation.Key == ledgerstore.ClaimKey(uid) || reservation.Key == ledgerstore.ResizeKey(uid)
}

// finish brings one reservation to its end: settled if its claim is granted, decided again if
// the claim does not know yet, cancelled if the claim is gone.
func (c *Controller) finish(ctx context.Context, reservation ledgerstore.Pending) error {
	name, err := claims.ReferenceOf(reservation.Claim)
	if err != nil {
		return err
	}
	claim, err := c.Client.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && !isOf(reservation, claim):
		return c.Store.Cancel(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	case err != nil:
		return err
	case claim.DeletionTimestamp != nil:
		return nil // releasing it ends the reservation
	case ledgerstore.IsAmendment(reservation.Key):
		return c.resize(ctx, name, reservation.Consumer)
	case claimcache.StateOf(claim) == claimcache.Granted:
		c.Store.Settle(reservation.Consumer, reservation.Key, reservation.Sequence)
		return nil
	default:
		c.decisions.Add(task{name, reservation.Consumer})
		return nil
	}
}
