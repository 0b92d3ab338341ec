package claim

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

// busyRetry is the delay before the next attempt for a claim in progress elsewhere.
const busyRetry = 50 * time.Millisecond

// reconcile does the next step for a claim.
func (c *Controller) reconcile(ctx context.Context, claim task) error {
	known := c.Claims.Get(claim.NamespacedName)
	if known == nil || known.Consumer() != claim.consumer {
		c.decided(claim) // it is no longer postponed for this consumer
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
	case known.Resizing:
		return c.resize(ctx, taskOf(known))
	case known.State == claimcache.Granted:
		c.decided(claim)
		return nil
	default:
		_, err := c.decide(ctx, taskOf(known))
		return err
	}
}

// decide decides one claim and reports whether it was granted.
func (c *Controller) decide(ctx context.Context, claim task) (isGranted bool, err error) {
	if !c.begin(claim.NamespacedName) {
		c.decisions.AddAfter(claim, busyRetry)
		return false, nil
	}
	defer c.end(claim.NamespacedName)
	isGranted, err = c.Engine.Decide(c.withoutReleaseWait(ctx, claim), claim.NamespacedName, claim.consumer)
	if errors.Is(err, ledgerstore.ErrReleasing) {
		c.postpone(claim)
		return false, nil
	}
	if err != nil {
		return false, err // a postponed claim stays in line
	}
	c.decided(claim)
	return isGranted, nil
}

// resize decides whether a granted claim gets its new amounts.
func (c *Controller) resize(ctx context.Context, claim task) error {
	if !c.begin(claim.NamespacedName) {
		c.decisions.AddAfter(claim, busyRetry)
		return nil
	}
	defer c.end(claim.NamespacedName)
	err := c.Engine.Resize(c.withoutReleaseWait(ctx, claim), claim.NamespacedName, claim.consumer)
	if errors.Is(err, ledgerstore.ErrReleasing) {
		c.postpone(claim)
		return nil
	}
	if err != nil {
		return err // as in decide
	}
	c.decided(claim)
	return nil
}

// release releases the charges of a deleted claim.
func (c *Controller) release(ctx context.Context, known *claimcache.Claim) error {
	if !c.begin(known.NamespacedName) {
		c.releases.AddAfter(taskOf(known), busyRetry)
		return nil
	}
	defer c.end(known.NamespacedName)
	after, err := c.Engine.Release(ctx, known)
	if after > 0 {
		c.releases.AddAfter(taskOf(known), after)
	}
	return err
}

// ObjectVanished queues the deleted claims of a deleted object. It has the signature of [objectcache.Handler].
func (c *Controller) ObjectVanished(_ schema.GroupKind, uid types.UID) {
	for _, claim := range c.Claims.ForObject(uid) {
		if claim.Deleting && claim.Finalizer {
			c.Store.ExpectRelease(claim.Consumer(), string(claim.UID))
			routing.Enqueue(c.releases, routing.PreferredFor(c.Replicas, claim.Consumer()), taskOf(claim))
		}
	}
}

// begin acquires a claim for work. It returns false if the claim is in progress already.
func (c *Controller) begin(name types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.busy[name]; busy {
		return false
	}
	c.busy[name] = struct{}{}
	return true
}

func (c *Controller) end(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, name)
}
