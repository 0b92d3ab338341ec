// Package fleet keeps a copy of the quota of all consumers for each administrator of the console. Pages search, sort
// and page through it at once. Listing and decoding the quota of 10,000 consumers for each page would take longer than
// a page may.
//
// A list and a watch with the person's own credentials feed the copy, so it has exactly the objects visible to them. It
// has compact rows. It ends with the session, after a time without use, or when the API server no longer lets the
// person list. Only the console imports this package.
package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/quotarequest"
)

const (
	// copiesMax bounds the copies of a console, and allRowsMax the rows of all of them. With some 400 bytes a row, all
	// take about 250 MB. Beyond a bound, the copy with the longest idle time ends; its pages read it again.
	copiesMax, allRowsMax = 32, 640_000
	// rowsMax bounds the rows of a copy. The copy omits further ones, and pages report it.
	rowsMax = 200_000
	// idleMax is the lifetime of a copy that no page uses.
	idleMax = 15 * time.Minute
	// readMax bounds the wait of a page for a copy. After it, the page reports that the read continues.
	readMax = 4 * time.Second
)

// Copies are the copies of a console. The zero value has none.
type Copies struct {
	mu   sync.Mutex
	open map[*Copy]struct{}
}

// place is where a session keeps its copy. The lock of [Copies] guards it.
type place struct{ copy *Copy }

type placeKey struct{}

// For returns the copy of a person, and reports whether its first read is complete. It returns nil for people without
// the rights to list and watch the quota of all consumers. A withdrawn right ends the copy within half a minute, even
// if its watch continues.
func (c *Copies) For(r *web.Request) (copied *Copy, isRead bool) {
	if copied = c.Begin(r); copied == nil {
		return nil, false
	}
	return copied, copied.wait(r.Context(), readMax)
}

// Begin starts reading the copy of a person ahead of their first use of it, and returns it as [Copies.For] does.
func (c *Copies) Begin(r *web.Request) *Copy {
	if !r.May(web.Right("list", "effectiveresourcegrants", "")) || !r.May(web.Right("watch", "effectiveresourcegrants", "")) {
		return nil
	}
	return c.of(r.Session, r.May(web.Right("list", "quotarequests", "")) && r.May(web.Right("watch", "quotarequests", "")))
}

// of returns the copy of a session, and begins one if there is none. With requests it has the open QuotaRequests as
// well. The session's user must have the right to list and watch in all namespaces; otherwise the copy ends at once.
func (c *Copies) of(s *session.Session, withRequests bool) *Copy {
	kept := session.Kept(s, placeKey{}, func() *place { return &place{} })
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept.copy == nil || kept.copy.ctx.Err() != nil || kept.copy.requests != nil != withRequests {
		if kept.copy != nil {
			kept.copy.end()
			delete(c.open, kept.copy)
		}
		kept.copy = c.begin(s, withRequests, kept)
	}
	kept.copy.used = time.Now()
	kept.copy.idle.Reset(idleMax)
	c.makeRoom(copiesMax, allRowsMax)
	return kept.copy
}

// makeRoom ends the copies with the longest idle times while there are too many copies or rows. One copy stays. The
// caller holds the lock.
func (c *Copies) makeRoom(copiesAllowed, rowsAllowed int) {
	byUse := slices.SortedFunc(maps.Keys(c.open), func(a, b *Copy) int { return b.used.Compare(a.used) })
	rows := 0
	for i, each := range byUse {
		if rows += each.quota.len(); i > 0 && (i >= copiesAllowed || rows > rowsAllowed) {
			each.end()
			delete(c.open, each)
		}
	}
}

// begin starts to read a copy. At the end of the copy, its place drops it, and with it its rows. The caller holds the
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
	go func() {
		select {
		case <-begun.quota.isRead:
			c.mu.Lock()
			defer c.mu.Unlock()
			c.makeRoom(copiesMax, allRowsMax) // now its rows are known
		case <-ctx.Done():
		}
	}()
	return begun
}

// Copy is the quota of all consumers, as one person may see it.
type Copy struct {
	ctx  context.Context
	end  context.CancelFunc
	idle *time.Timer
	// The lock of [Copies] guards used.
	used time.Time

	quota *quotaStore
	// requests is nil if the person may not list them.
	requests *requestStore

	mu sync.Mutex
	// failures are the errors of the last requests, by subject.
	failures map[string]error
}

// wait waits for the first read of the copy, for a bounded time. It reports whether the read is complete.
func (c *Copy) wait(ctx context.Context, atMost time.Duration) bool {
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

// Granted adds up the limits of a resource type. It is not whole if the copy left rows out.
func (c *Copy) Granted(resourceType string) (total ledger.Amount, isWhole bool) {
	isCut := c.quota.each(func(row *Row) {
		if row.ResourceType == resourceType {
			total = total.AddUpTo(ledger.Amount(row.Limit))
		}
	})
	return total, !isCut
}

// Failure returns the error of the last attempt to read, or nil after a success. The copy tries again by itself, unless
// the person lacks the right.
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

// trimQuota drops the fields that rows do not need, before the client reads further pages of a list.
func trimQuota(list *quotav1alpha1.EffectiveResourceGrantList) {
	for i := range list.Items {
		each := &list.Items[i]
		each.Labels, each.Annotations, each.ManagedFields, each.OwnerReferences = nil, nil, nil, nil
		each.Status.GrantRefs, each.Status.AllowanceBucketRefs = nil, nil
	}
}

// asksOf returns the rows that a request asks for, and whether the request is open.
func asksOf(request *quotav1alpha1.QuotaRequest) (asks []key, isOpen bool) {
	for i := range request.Spec.Requests {
		// A row has one resource type, for all of its dimensions.
		if row := (key{request.Spec.ConsumerRef, shared(request.Spec.Requests[i].ResourceType)}); !slices.Contains(asks, row) {
			asks = append(asks, row)
		}
	}
	return asks, !quotarequest.IsFinal(request) && request.DeletionTimestamp == nil
}
