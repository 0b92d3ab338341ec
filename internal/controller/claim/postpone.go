package claim

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// postponedMax is how long the controller postpones a claim without room during a release: as long as a denial of a
// create waits.
const postponedMax = ledgerstore.ReleaseTimeout

// withoutReleaseWait makes the decision on a claim return [ledgerstore.ErrReleasing] instead of waiting for a release,
// until the end of postponedMax.
func (c *Controller) withoutReleaseWait(ctx context.Context, claim task) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, known := c.postponed[claim.consumer][claim.NamespacedName]
	if !known {
		until = time.Now().Add(postponedMax)
	}
	return ledgerstore.WithRetryUntil(ctx, until)
}

// postpone puts a claim in line with the waiting claims. The controller decides it with them after a release, and
// finally when its time is over.
func (c *Controller) postpone(claim task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	postponed := c.postponed[claim.consumer]
	if postponed == nil {
		postponed = map[types.NamespacedName]time.Time{}
		c.postponed[claim.consumer] = postponed
	}
	if _, known := postponed[claim.NamespacedName]; !known {
		postponed[claim.NamespacedName] = time.Now().Add(postponedMax)
		// The release may have ended between the decision and this moment.
		c.retries.AddAfter(claim.consumer, busyRetry)
	}
	// Also if it is known: an earlier delay of the same claim may have taken the place of this one in the queue.
	c.decisions.AddAfter(claim, time.Until(postponed[claim.NamespacedName]))
}

// decided removes a claim from the postponed ones.
func (c *Controller) decided(claim task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.postponed[claim.consumer], claim.NamespacedName)
	if len(c.postponed[claim.consumer]) == 0 {
		delete(c.postponed, claim.consumer)
	}
}
