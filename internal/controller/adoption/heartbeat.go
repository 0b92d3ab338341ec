package adoption

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// renewInterval is the time between two heartbeats. The heartbeat is a Lease with the time up to which this process
	// reviewed objects. It is well below recordDelayMax.
	renewInterval = recordDelayMax / 3
)

// runHeartbeat renews the Lease from the first list of the claims on, until ctx ends.
func (c *Controller) runHeartbeat(ctx context.Context) {
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return // ctx has ended
	}
	for ctx.Err() == nil {
		wait := renewInterval
		if err := c.renewHeartbeat(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "cannot renew the heartbeat: a restart would process more objects than necessary; will try again")
			wait = retryAfter
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// renewHeartbeat renews the Lease. The first time, it records the gap since the previous Lease before.
func (c *Controller) renewHeartbeat(ctx context.Context) error {
	if err := c.recordDowntime(ctx); err != nil {
		return err
	}
	now := metav1.NewMicroTime(c.now())
	lease, err := c.Leases.Get(ctx, naming.ReviewsLease, metav1.GetOptions{})
	switch {
	case err == nil:
		lease.Spec.RenewTime = &now
		_, err = c.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: naming.ReviewsLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		_, err = c.Leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s: %w", naming.ReviewsLease, err)
	}
	return nil
}

// lastHeartbeat returns until when an earlier process reviewed objects, or the zero time if there is no record.
func (c *Controller) lastHeartbeat(ctx context.Context) (time.Time, error) {
	lease, err := c.Leases.Get(ctx, naming.ReviewsLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read Lease %s: %w", naming.ReviewsLease, err)
	case lease.Spec.RenewTime == nil:
		return time.Time{}, nil
	default:
		return lease.Spec.RenewTime.Time, nil
	}
}

// recordDowntime finds the last heartbeat before this process, and records in each policy since when objects may lack a
// claim. The process may end before it has inspected them, and a renewed Lease loses the time. The claim cache must be
// in sync.
func (c *Controller) recordDowntime(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasRecordedDowntime {
		return nil
	}
	var err error
	if c.reviewedUntil, err = c.lastHeartbeat(ctx); err != nil {
		return err
	}
	var policies quotav1alpha1.ClaimCreationPolicyList
	if err := c.Client.List(ctx, &policies); err != nil {
		return fmt.Errorf("list the policies: %w", err)
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		p := c.Catalog.Policy(policy.Name)
		if !isAdopted(policy) || c.countsObjects(policy.Name) || p != nil && (p.UsesRequest() || c.allHaveClaims(p)) {
			continue
		}
		since, err := c.sinceOf(ctx, policy)
		if err != nil {
			return err
		}
		if err := c.updateBacklog(ctx, policy.Name, func(u *policyBacklog) { u.paused = earlier(u.paused, since) }); err != nil {
			return err
		}
	}
	c.hasRecordedDowntime = true
	return nil
}

// Clock returns the time.
type Clock interface{ Now() time.Time }

func (c *Controller) now() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock.Now()
}
