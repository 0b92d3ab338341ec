package claim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bursar/bursar/internal/claimcache"
)

const (
	// labelInterval and labelledMax pace the labelling of claims from an earlier version, which nobody waits for: 100,000
	// claims take an hour and a half.
	labelInterval = time.Second
	labelledMax   = 20
)

// labelAll puts the labels that name their consumer on claims that lack them, until ctx ends.
func (c *Controller) labelAll(ctx context.Context) {
	if c.Claims.WaitForSync(ctx) != nil {
		return
	}
	ticker := time.NewTicker(labelInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.labelSome(ctx)
		}
	}
}

// labelSome labels a few claims. An error ends it for now.
func (c *Controller) labelSome(ctx context.Context) {
	keeps := func(claim *claimcache.Claim) bool { return c.Keeps.Of(claim.Consumer()) }
	for _, claim := range c.Claims.Unlabelled(labelledMax, keeps) {
		err := c.Client.Label(ctx, claim.NamespacedName, claim.UID, claim.Consumer())
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			if ctx.Err() == nil {
				c.Log.Error(err, "will label claims with their consumers later", "claim", claim.NamespacedName.String())
			}
			return
		}
	}
}
