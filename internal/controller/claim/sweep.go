package claim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// listAfter is how long the sweep waits for a cache that moves to reach a version, before it lists the claims of
	// consumers.
	listAfter = 2 * time.Minute
	// listsMax is how many consumers' claims one sweep lists.
	listsMax = 16
)

// sweep looks for reservations of claims created directly that were not concluded.
func (c *Controller) sweep(ctx context.Context) {
	for _, reservation := range c.Store.Reservations() {
		if !c.Peers.IsPreferred(reservation.Consumer) || ledgerstore.ObjectUID(reservation.Key) != "" || time.Since(time.Unix(reservation.ReservedAt, 0)) < sweepAge {
			continue
		}
		if err := c.finish(ctx, reservation); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "will try again", "reservation", reservation.Key)
		}
	}
}

// unconfirmed are records whose claims the cache does not have. The claims are gone if it still does not have them at a
// version later than the records.
type unconfirmed struct {
	version string
	since   time.Time
	ids     map[quotav1alpha1.ConsumerRef][]string
	// seen is the version of the cache at the last sweep.
	seen string
}

// sweepReleased forgets released claims that went away unnoticed, while no process watched, and withdrawn
// reservations whose claims are gone. Records that are younger than age are about to be forgotten anyway. As long as the cache
// keeps up, it asks the API server for nothing but its version. Where nothing happens, an API server tells the cache of no
// version for about a minute: then a list costs little.
func (c *Controller) sweepReleased(ctx context.Context, age time.Duration) {
	if c.unconfirmed != nil {
		c.confirmGone(ctx)
		return
	}
	ids := c.withoutClaims(ctx, age)
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

// withoutClaims returns the records older than age whose claims are not in the cache. Claims of which this replica keeps the
// ledger, and that somebody else keeps by a finalizer, are not among them.
func (c *Controller) withoutClaims(ctx context.Context, age time.Duration) map[quotav1alpha1.ConsumerRef][]string {
	missing := map[quotav1alpha1.ConsumerRef][]string{}
	for consumer, ids := range c.Store.ReleasedLongAgo(age) {
		if !c.Peers.IsPreferred(consumer) {
			continue
		}
		for _, id := range ids {
			if !c.hasClaim(ctx, id) {
				missing[consumer] = append(missing[consumer], id)
			}
		}
	}
	return missing
}

// hasClaim reports whether there may be the claim of a record. A claim that the cache has of the object of a withdrawn
// reservation is read, to find out whether it was made from that.
func (c *Controller) hasClaim(ctx context.Context, id string) bool {
	objectUID, isWithdrawn := ledgerstore.WithdrawnFrom(id)
	if !isWithdrawn {
		return c.Claims.IsDeleting(types.UID(id))
	}
	for _, known := range c.Claims.ForObject(types.UID(objectUID)) {
		claim, err := c.Client.Get(ctx, known.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return true // the next sweep asks again
		case ledgerstore.WithdrawnID(claim.Annotations[quotav1alpha1.AnnotationResourceUID], claims.SequenceOf(claim)) == id:
			return true
		}
	}
	return false
}

// confirmGone forgets the records whose claims are gone, if that is known by now.
func (c *Controller) confirmGone(ctx context.Context) {
	u := c.unconfirmed
	if c.Claims.HasSeen(u.version) {
		for consumer, ids := range u.ids {
			for _, id := range ids {
				if !c.hasClaim(ctx, id) {
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

// forgetUnlisted forgets the records whose claims are not in a list of the claims of a consumer.
func (c *Controller) forgetUnlisted(ctx context.Context, consumer quotav1alpha1.ConsumerRef, ids []string) {
	existing, err := c.Client.RecordedIDs(ctx, consumer)
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
		c.Log.Error(err, "will look again for records of claims that are gone")
	}
}

// finish brings one reservation to its end: settled if its claim is granted, decided again if
// the claim does not know yet, cancelled if the claim is gone.
func (c *Controller) finish(ctx context.Context, reservation ledgerstore.InFlight) error {
	left, name, err := c.Engine.Finish(ctx, reservation)
	switch left {
	case engine.LeftToResize:
		return c.resize(ctx, task{name, reservation.Consumer})
	case engine.LeftToDecide:
		c.decisions.Add(task{name, reservation.Consumer})
	}
	return err
}
