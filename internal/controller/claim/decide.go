package claim

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
)

// busyRetry is when a claim is looked at again that was being worked on elsewhere.
const busyRetry = 50 * time.Millisecond

// decide decides one claim and records the result in its status.
func (c *Controller) decide(ctx context.Context, name types.NamespacedName) error {
	if !c.begin(name) {
		c.queue.AddAfter(name, busyRetry)
		return nil
	}
	defer c.end(name)
	claim, err := c.undecided(ctx, name)
	if claim == nil || err != nil {
		return err
	}
	if !claimcache.HasFinalizer(claim) {
		// It was made while the webhook that adds the finalizer was not in place. Without it, what
		// it is granted would never be given back.
		if err := c.Client.AddFinalizer(ctx, claim); err != nil {
			return fmt.Errorf("put the finalizer on claim %s: %w", name, err)
		}
	}
	reservation, err := c.reservationOf(claim)
	if err != nil {
		claims.Reject(claim, err.Error(), time.Now())
		return c.report(ctx, claim)
	}
	decision, err := c.Store.ReserveVerified(ctx, claim.Spec.ConsumerRef, func(ctx context.Context) (*ledger.Reservation, error) {
		claim, err = c.undecided(ctx, name)
		if claim == nil || err != nil {
			return nil, err
		}
		return &reservation, nil
	})
	if err != nil {
		return fmt.Errorf("decide claim %s: %w", name, err)
	}
	if decision.Code == 0 {
		return nil
	}
	return c.conclude(ctx, claim, reservation.Key, decision)
}

// undecided reads a claim, and returns nil if there is nothing to decide about it any more.
func (c *Controller) undecided(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := c.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) == claimcache.Granted {
		return nil, nil
	}
	return claim, nil
}

// begin claims the right to decide about a claim, and tells whether nobody else has it.
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
