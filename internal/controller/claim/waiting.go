package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

const (
	// retryBatchMax is the largest number of waiting claims in a batch.
	retryBatchMax = 256
	// decisionsMax is the number of concurrent decisions in a batch.
	decisionsMax = 8
)

// retryWaiting decides the waiting claims of a consumer again, the oldest first. Once a need does not fit, neither does
// the same need behind it: thousands of claims with a few needs take a few batches.
func (c *Controller) retryWaiting(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
	tooLarge := map[claimcache.Need]bool{}

	for waiting := c.waitingOf(consumer); len(waiting) > 0; {
		batch := waiting[:min(len(waiting), retryBatchMax)]
		waits, err := c.retry(ctx, consumer, batch)
		if err != nil {
			return fmt.Errorf("decide the waiting claims of %s %s again: %w", consumer.Kind, consumer.Name, err)
		}

		for _, claim := range waits {
			tooLarge[claim.Need()] = true
		}
		waiting = slices.DeleteFunc(waiting[len(batch):], func(claim *claimcache.Claim) bool { return tooLarge[claim.Need()] })
	}
	return nil
}

// Waiting returns, by consumer, the missing amounts of each claim waiting for capacity. For a resize these are the
// amounts beyond its current charges.
func (c *Controller) Waiting() map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest {
	needs := map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest{}
	for _, consumer := range c.consumersWaiting() {
		for _, claim := range c.waitingOf(consumer) {
			needs[consumer] = append(needs[consumer], needOf(claim))
		}
	}
	return needs
}

// needOf returns the amounts a waiting claim needs in addition to its charges.
func needOf(claim *claimcache.Claim) []quotav1alpha1.ResourceRequest {
	if !claim.HasResize() {
		return claim.Requests()
	}
	held := map[string]int64{}
	for _, request := range claim.Requests() {
		held[request.ResourceType] = request.Amount
	}
	var need []quotav1alpha1.ResourceRequest
	for _, request := range claim.Resize() {
		if request.Amount -= held[request.ResourceType]; request.Amount > 0 {
			need = append(need, request)
		}
	}
	return need
}

// waitingOf returns the waiting claims of a consumer in the order of decision.
func (c *Controller) waitingOf(consumer quotav1alpha1.ConsumerRef) []*claimcache.Claim {
	c.mu.Lock()
	names := slices.Collect(maps.Keys(c.waiting[consumer]))
	postponed := slices.Collect(maps.Keys(c.postponed[consumer]))
	c.mu.Unlock()
	var waiting []*claimcache.Claim
	for _, name := range names {
		if claim := c.Claims.Get(name); isWaiting(claim) {
			waiting = append(waiting, claim)
		}
	}
	for _, name := range postponed {
		if claim := c.Claims.Get(name); claim != nil && !isWaiting(claim) && !claim.Deleting && claim.Consumer() == consumer && claim.State != claimcache.Granted {
			waiting = append(waiting, claim)
		}
	}
	slices.SortFunc(waiting, func(a, b *claimcache.Claim) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return waiting
}

// retry decides the claims of a batch that fit now, the oldest first. It returns those that do not fit; they keep
// waiting with an unchanged status.
func (c *Controller) retry(ctx context.Context, consumer quotav1alpha1.ConsumerRef, batch []*claimcache.Claim) (waits []*claimcache.Claim, err error) {
	fitting, invalid, err := c.Engine.Fit(ctx, consumer, batch)
	for _, claim := range invalid {
		c.decisions.Add(taskOf(claim)) // the decision writes its reason into the status
	}
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	group.SetLimit(decisionsMax)
	errs := make([]error, len(fitting))
	var missed atomic.Bool
	for i, claim := range fitting {
		group.Go(func() error {
			if claim.HasResize() {
				errs[i] = c.resize(ctx, task{claim.NamespacedName, consumer})
				return nil
			}
			isGranted, err := c.decide(ctx, task{claim.NamespacedName, consumer})
			if !isGranted && err == nil {
				missed.Store(true)
			}
			errs[i] = err
			return nil
		})
	}
	_ = group.Wait()
	if missed.Load() {
		// The capacity set aside for a failed claim may be enough for another.
		c.retries.AddAfter(consumer, busyRetry)
	}
	waits = slices.DeleteFunc(slices.Clone(batch), func(claim *claimcache.Claim) bool {
		return slices.Contains(fitting, claim) || slices.Contains(invalid, claim)
	})
	return waits, errors.Join(errs...)
}
