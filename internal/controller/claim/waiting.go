package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

const (
	// retryMax is how many waiting claims are decided in one commit.
	retryMax = 256
	// statusWriters is how many statuses are written at a time.
	statusWriters = 8
)

// retryWaiting decides the waiting claims of a consumer again, the oldest first.
func (c *Controller) retryWaiting(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
	waiting := c.waitingOf(consumer)
	for batch := range slices.Chunk(waiting, retryMax) {
		if err := c.retry(ctx, consumer, batch); err != nil {
			return fmt.Errorf("decide the waiting claims of %s %s again: %w", consumer.Kind, consumer.Name, err)
		}
	}
	return nil
}

// waitingOf returns the waiting claims of a consumer in the order in which they are decided.
func (c *Controller) waitingOf(consumer quotav1alpha1.ConsumerRef) []*claimcache.Claim {
	c.mu.Lock()
	names := make([]types.NamespacedName, 0, len(c.waiting[consumer]))
	for name := range c.waiting[consumer] {
		names = append(names, name)
	}
	c.mu.Unlock()
	var waiting []*claimcache.Claim
	for _, name := range names {
		if claim := c.Claims.Get(name); isWaiting(claim) {
			waiting = append(waiting, claim)
		}
	}
	slices.SortFunc(waiting, func(a, b *claimcache.Claim) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return waiting
}

// retry decides a batch in one commit and concludes those that are admitted now. The others
// keep waiting, and their status is left alone.
func (c *Controller) retry(ctx context.Context, consumer quotav1alpha1.ConsumerRef, batch []*claimcache.Claim) error {
	reservations := make([]ledger.Reservation, 0, len(batch))
	claims := make([]*claimcache.Claim, 0, len(batch))
	for _, claim := range batch {
		if !claim.Finalizer {
			c.queue.Add(claim.NamespacedName) // to get one
			continue
		}
		if !c.begin(claim.NamespacedName) {
			c.retries.AddAfter(consumer, busyRetry)
			continue
		}
		defer c.end(claim.NamespacedName)
		spec := quotav1alpha1.ResourceClaim{Spec: claim.Spec()}
		spec.Namespace, spec.Name, spec.UID = claim.Namespace, claim.Name, claim.UID
		reservation, err := c.reservationOf(&spec)
		if err != nil {
			c.queue.Add(claim.NamespacedName) // its status will say why
			continue
		}
		reservations, claims = append(reservations, reservation), append(claims, claim)
	}
	decisions, err := c.Store.ReserveEach(ctx, consumer, reservations)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(statusWriters)
	errs := make([]error, len(decisions))
	for i, decision := range decisions {
		if decision.Code == 0 {
			errs[i] = ledgerstore.ErrBusy
		}
		if decision.Code != ledger.Admitted {
			continue
		}
		group.Go(func() error {
			errs[i] = c.concludeRetry(ctx, claims[i], reservations[i].Key, decision)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// concludeRetry marks a claim as granted that has waited.
func (c *Controller) concludeRetry(ctx context.Context, known *claimcache.Claim, key string, decision ledger.Decision) error {
	claim, err := c.Client.Get(ctx, known.NamespacedName)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
	}
	if err != nil || claim.UID != known.UID {
		return c.Store.Cancel(ctx, known.Consumer(), key, decision.Sequence)
	}
	if claim.DeletionTimestamp != nil {
		return nil // releasing it gives back the reservation
	}
	if claimcache.StateOf(claim) == claimcache.Granted && !decision.Existing {
		// Another process was faster, and its reservation is settled.
		return c.Store.Cancel(ctx, known.Consumer(), key, decision.Sequence)
	}
	return c.conclude(ctx, claim, key, decision)
}
