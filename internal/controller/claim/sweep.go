package claim

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// listAfter is how long the sweep waits for an active cache to reach a version. Then it lists the claims of
	// consumers.
	listAfter = 2 * time.Minute
	// listsMax is for how many consumers one sweep lists the claims.
	listsMax = 16
)

// unconfirmed are records without a claim in the cache. The claims are gone if the cache still lacks them at a version
// later than the records.
type unconfirmed struct {
	version string
	since   time.Time
	ids     map[quotav1alpha1.ConsumerRef][]string
	// seen is the version of the cache at the last sweep.
	seen string
}

// sweepReleased forgets released claims after a deletion without a watching process. It leaves out records younger than
// age, because their end is near anyway. With an up-to-date cache, it requests only a version from the API server. In a
// quiet cluster the API server sends the cache no version for about a minute: then a list is cheap.
func (c *Controller) sweepReleased(ctx context.Context, age time.Duration) {
	if c.unconfirmed != nil {
		c.confirmGone(ctx)
		return
	}
	ids := c.withoutClaims(age)
	if len(ids) == 0 {
		return
	}
	version, err := c.Client.Version(ctx)
	if err != nil {
		c.sweepFailed(ctx, err)
		return
	}
	c.unconfirmed = &unconfirmed{version: version, since: time.Now(), ids: ids, seen: c.Claims.Version()}
}

// withoutClaims returns the records older than age without a claim in the cache, for the consumers with this preferred
// replica. A claim with another client's finalizer is still in the cache.
func (c *Controller) withoutClaims(age time.Duration) map[quotav1alpha1.ConsumerRef][]string {
	absent := map[quotav1alpha1.ConsumerRef][]string{}
	for consumer, ids := range c.Store.ReleasedLongAgo(age) {
		if !c.Replicas.IsPreferred(consumer) {
			continue
		}
		for _, id := range ids {
			if !c.Claims.IsDeleting(types.UID(id)) {
				absent[consumer] = append(absent[consumer], id)
			}
		}
	}
	return absent
}

// confirmGone forgets the records of claims certainly gone by now.
func (c *Controller) confirmGone(ctx context.Context) {
	u := c.unconfirmed
	if c.Claims.HasSeen(u.version) {
		for consumer, ids := range u.ids {
			for _, id := range ids {
				if !c.Claims.IsDeleting(types.UID(id)) {
					c.Store.Forget(consumer, id)
				}
			}
		}
		c.unconfirmed = nil
		return
	}
	before := u.seen
	u.seen = c.Claims.Version()
	if u.seen != before && time.Since(u.since) < listAfter {
		return
	}
	lists := 0
	for consumer, ids := range u.ids {
		if lists++; lists > listsMax {
			return
		}
		c.forgetUnlisted(ctx, consumer, ids)
		delete(u.ids, consumer)
	}
	c.unconfirmed = nil
}

// forgetUnlisted lists the claims of a consumer and forgets the records without one.
func (c *Controller) forgetUnlisted(ctx context.Context, consumer quotav1alpha1.ConsumerRef, ids []string) {
	existing, err := c.Client.UIDs(ctx, consumer)
	if err != nil {
		c.sweepFailed(ctx, err)
		return
	}
	for _, id := range ids {
		if !existing[id] {
			c.Store.Forget(consumer, id)
		}
	}
}

func (c *Controller) sweepFailed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		c.Log.Error(err, "cannot remove the records of deleted claims, will try again")
	}
}
