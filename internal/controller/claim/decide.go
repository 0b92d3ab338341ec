package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// busyRetry is when a claim is looked at again that was being worked on elsewhere.
const busyRetry = 50 * time.Millisecond

// decide decides one claim, records the result in its status and tells whether it was granted.
func (c *Controller) decide(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (granted bool, err error) {
	if !c.begin(name) {
		c.decisions.AddAfter(task{name, consumer}, busyRetry)
		return false, nil
	}
	defer c.end(name)
	var claim *quotav1alpha1.ResourceClaim
	var flaw error
	decision, err := c.Store.ReserveVerified(c.withPatience(ctx, task{name, consumer}), consumer, func(ctx context.Context) (*ledger.Reservation, error) {
		flaw = nil
		var err error
		if claim, err = c.decidable(ctx, name); claim == nil || err != nil {
			return nil, err
		}
		if claim.Spec.ConsumerRef != consumer {
			claim = nil // another claim of that name, which is on its way here
			return nil, nil
		}
		var reservation ledger.Reservation
		if reservation, flaw = c.reservationOf(claim); flaw != nil {
			return nil, nil
		}
		return &reservation, nil
	})
	if errors.Is(err, ledgerstore.ErrReleasing) {
		c.postpone(task{name, consumer})
		return false, nil
	}
	c.decided(task{name, consumer})
	switch {
	case err != nil:
		return false, fmt.Errorf("decide claim %s: %w", name, err)
	case claim == nil:
		return false, nil
	case flaw != nil:
		claims.Reject(claim, flaw.Error(), time.Now())
		return false, c.report(ctx, claim)
	default:
		err := c.conclude(ctx, claim, ledgerstore.ClaimKey(string(claim.UID)), decision)
		return err == nil && decision.Code == ledger.Admitted, err
	}
}

// decidable reads a claim that is undecided. If it lacks the finalizer, because it was made while
// the webhook that adds it was not in place, it gets it first: without it, what it is granted
// would never be given back.
func (c *Controller) decidable(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := c.undecided(ctx, name)
	if claim == nil || err != nil || claimcache.HasFinalizer(claim) {
		return claim, err
	}
	if err := c.Client.AddFinalizer(ctx, claim); err != nil {
		return nil, fmt.Errorf("put the finalizer on it: %w", err)
	}
	return c.undecided(ctx, name)
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

// begin takes the right to decide or release a claim, and tells whether nobody else has it.
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
