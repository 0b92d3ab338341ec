package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	caps "github.com/bursar/bursar/internal/allocation"
)

// expire forgets quota changes missing in storage after their time. It measures the time by its own observation,
// because another replica may have admitted them by another clock.
func (c *Controller) expire(ctx context.Context, name string, pending []caps.QuotaChange) error {
	var errs []error
	for _, change := range c.longPending(name, pending) {
		isMade, err := c.isMade(ctx, change)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !isMade:
			errs = append(errs, c.Ledgers.Cancel(ctx, name, change.ID))
		}
	}
	return errors.Join(errs...)
}

// longPending returns the quota changes pending, in this replica's view, for longer than any request lasts.
func (c *Controller) longPending(name string, pending []caps.QuotaChange) []caps.QuotaChange {
	known, now := c.stateOf(name), time.Now()
	since := make(map[string]time.Time, len(pending))
	var long []caps.QuotaChange
	for _, change := range pending {
		first, ok := known.pending[change.ID]
		if !ok {
			first = now
		}
		since[change.ID] = first
		if now.Sub(first) >= c.PendingTime {
			long = append(long, change)
		}
	}
	known.pending = since
	return long
}

// isMade reports whether the ResourceQuota no longer has the version before the change. Its watch event is about to
// arrive.
func (c *Controller) isMade(ctx context.Context, change caps.QuotaChange) (bool, error) {
	quota := &corev1.ResourceQuota{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: change.Namespace, Name: change.Name}, quota)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("check whether ResourceQuota %s/%s was changed: %w", change.Namespace, change.Name, err)
	}
	if change.ResourceVersion == "" {
		return quota.UID == change.UID, nil
	}
	return quota.UID != change.UID || quota.ResourceVersion != change.ResourceVersion, nil
}
