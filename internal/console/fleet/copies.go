// Package fleet keeps a copy of the quota of all consumers for each administrator of the console, so that pages can search,
// sort and page through it at once. Listing and decoding the quota of 10,000 consumers for each page would take longer
// than a page may.
//
// A copy is fed by a list and a watch with the person's own credentials, so that it has what the API server lets them see
// and nothing else. It has compact rows, and ends with the session, when nobody used it for a while, or when the API server
// no longer lets the person list. Only the console's area for administrators imports this package.
package fleet

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/quotarequest"
)

const (
	// copiesMax bounds the copies of a console. With 20,000 rows of some 400 bytes, a copy takes about 8 MB, so all take
	// about 250 MB. Beyond the bound, the copy that was idle longest ends; its pages read it again.
	copiesMax = 32
	// rowsMax bounds the rows of a copy. Further ones are left out, and pages say so.
	rowsMax = 200_000
	// idleMax is how long a copy is kept without a page that uses it.
	idleMax = 15 * time.Minute
)

// Copies are the copies of a console. The zero value has none.
type Copies struct {
	mu   sync.Mutex
	open map[*Copy]struct{}
}

// place is where a session keeps its copy. The lock of [Copies] guards it.
type place struct{ copy *Copy }

type placeKey struct{}

// Of returns the copy of a session, and begins one if there is none. With requests it has the open QuotaRequests as well.
// The session's user must have the right to list and watch in all namespaces; otherwise the copy ends at once.
func (c *Copies) Of(s *session.Session, withRequests bool) *Copy {
	kept := session.Kept(s, placeKey{}, func() *place { return &place{} })
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept.copy == nil || kept.copy.ctx.Err() != nil || kept.copy.requests != nil != withRequests {
		if kept.copy != nil {
			kept.copy.end()
			delete(c.open, kept.copy)
		}
		c.makeRoom()
		kept.copy = c.begin(s, withRequests, kept)
	}
	kept.copy.used = time.Now()
	kept.copy.idle.Reset(idleMax)
	return kept.copy
}

// makeRoom ends the copy that was idle longest if there are too many. The caller holds the lock.
func (c *Copies) makeRoom() {
	if len(c.open) < copiesMax {
		return
	}
	var oldest *Copy
	for each := range c.open {
		if oldest == nil || each.used.Before(oldest.used) {
			oldest = each
		}
	}
	oldest.end()
	delete(c.open, oldest)
}

// begin begins to read a copy. A place does not keep a copy that has ended, which would keep its rows. The caller holds the
// lock.
func (c *Copies) begin(s *session.Session, withRequests bool, kept *place) *Copy {
	ctx, end := context.WithCancel(s.Context())
	begun := &Copy{ctx: ctx, end: end, idle: time.AfterFunc(idleMax, end), quota: newQuotaStore(), failures: map[string]error{}}
	if c.open == nil {
		c.open = map[*Copy]struct{}{}
	}
	c.open[begun] = struct{}{}
	context.AfterFunc(ctx, func() {
		begun.idle.Stop()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, begun)
		if kept.copy == begun {
			kept.copy = nil
		}
	})
	follow(begun, "quota", s.API, &quotav1alpha1.EffectiveResourceGrant{}, begun.quota, func() *quotav1alpha1.EffectiveResourceGrantList {
		return &quotav1alpha1.EffectiveResourceGrantList{}
	}, trimQuota)
	if withRequests {
		begun.requests = newRequestStore()
		follow(begun, "requests", s.API, &quotav1alpha1.QuotaRequest{}, begun.requests, func() *quotav1alpha1.QuotaRequestList {
			return &quotav1alpha1.QuotaRequestList{}
		}, func(*quotav1alpha1.QuotaRequestList) {})
	}
	return begun
}

// Copy is the quota of all consumers, as one person may see it.
type Copy struct {
	ctx  context.Context
	end  context.CancelFunc
	idle *time.Timer
	// used is guarded by the lock of [Copies].
	used time.Time

	quota *quotaStore
	// requests is nil if the person may not list them.
	requests *requestStore

	mu sync.Mutex
	// failures are the errors of the last requests, by what they read.
	failures map[string]error
}

// Wait waits until the copy was read, for some time at most. It reports whether that is so.
func (c *Copy) Wait(ctx context.Context, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	read := []<-chan struct{}{c.quota.isRead}
	if c.requests != nil {
		read = append(read, c.requests.isRead)
	}
	for _, each := range read {
		select {
		case <-each:
		case <-ctx.Done():
			return false
		case <-c.ctx.Done():
			return false
		}
	}
	return true
}

// Failure returns the error of the last attempt to read, or nil if that worked. The copy tries again by itself, unless the
// person lacks the right.
func (c *Copy) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.failures {
		return err
	}
	return nil
}

// noted keeps the error of a request for pages, and ends the copy if the error is about the person's rights.
func (c *Copy) noted(what string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failures, what)
		return nil
	}
	c.failures[what] = err
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		c.end()
	}
	return err
}

// trimQuota drops what rows do not have, before further pages of a list are read.
func trimQuota(list *quotav1alpha1.EffectiveResourceGrantList) {
	for i := range list.Items {
		each := &list.Items[i]
		each.Labels, each.Annotations, each.ManagedFields, each.OwnerReferences = nil, nil, nil, nil
		each.Status.GrantRefs, each.Status.AllowanceBucketRefs = nil, nil
	}
}

// consumerWith returns the consumer of a request, and whether the request is open.
func consumerWith(request *quotav1alpha1.QuotaRequest) (consumer quotav1alpha1.ConsumerRef, isOpen bool) {
	return request.Spec.ConsumerRef, !quotarequest.IsFinal(request) && request.DeletionTimestamp == nil
}
