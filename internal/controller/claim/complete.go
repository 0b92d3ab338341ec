package claim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bursar/bursar/internal/claims/claimcache"
)

const (
	// completeInterval and completedMax pace the completion of claims from an earlier version or installation: 100,000
	// claims take half an hour.
	completeInterval = time.Second
	completedMax     = 50
)

// completeAll adds missing labels and finalizers to claims, until ctx ends. The labels name the consumer. Without the
// finalizer, the charges of a claim return with its deletion, although its object may exist.
func (c *Controller) completeAll(ctx context.Context) {
	if c.Claims.WaitForSync(ctx) != nil {
		return
	}
	ticker := time.NewTicker(completeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.completeSome(ctx)
		}
	}
}

// completeSome completes a few claims. It stops at an error.
func (c *Controller) completeSome(ctx context.Context) {
	keeps := func(claim *claimcache.Claim) bool { return c.Replicas.IsPreferred(claim.Consumer()) }
	for _, claim := range c.Claims.Incomplete(completedMax, keeps) {
		err := c.complete(ctx, claim)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			if ctx.Err() == nil {
				c.Log.Error(err, "will complete claims later", "claim", claim.NamespacedName.String())
			}
			return
		}
	}
}

func (c *Controller) complete(ctx context.Context, claim *claimcache.Claim) error {
	if !claim.Finalizer {
		current, err := c.Client.Get(ctx, claim.NamespacedName)
		if err != nil || current.UID != claim.UID || current.DeletionTimestamp != nil {
			return err
		}
		if err := c.Client.AddFinalizer(ctx, current); err != nil {
			return err
		}
	}
	if claim.Labelled {
		return nil
	}
	return c.Client.Label(ctx, claim.NamespacedName, claim.UID, claim.Consumer())
}
