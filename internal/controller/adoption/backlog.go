package adoption

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// recordDelayMax is more than the longest delay between the creation of an unreviewed object and its record in the
	// backlog. After the end of a process, unreviewed objects of its last recordDelayMax are unknown.
	recordDelayMax = time.Minute
	// recordDelay is how long objects wait for their record: the inspection of most comes first.
	recordDelay = recordDelayMax / 3
)

// backlog records, in the status of policies, the wait of possibly unclaimed objects for an inspection. The record is
// for the process after this one.
type backlog struct {
	objectsMu sync.Mutex
	objects   map[object]time.Time // unreviewed, with the time of their appearance

	// Hold mu during a status write: then the last write has the current state.
	mu       sync.Mutex
	policies map[string]policyBacklog
}

// policyBacklog is the backlog of one policy. The zero value is empty.
type policyBacklog struct {
	// paused is when the policy stopped being effective. It stands until the inspection of all objects.
	paused time.Time
	// oldest is the creation time of the oldest unreviewed object.
	oldest time.Time
}

func newBacklog() backlog {
	return backlog{objects: map[object]time.Time{}, policies: map[string]policyBacklog{}}
}

// since returns nil for an empty backlog.
func (b policyBacklog) since() *metav1.Time {
	since := earlier(b.paused, b.oldest)
	if since.IsZero() {
		return nil
	}
	return &metav1.Time{Time: since}
}

// earlier returns the earlier of two times. It ignores zero times.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (b *backlog) add(o object, now time.Time) {
	b.objectsMu.Lock()
	defer b.objectsMu.Unlock()
	if _, known := b.objects[o]; !known {
		b.objects[o] = now
	}
}

// remove removes an object, and reports whether it was the last one.
func (b *backlog) remove(o object) bool {
	b.objectsMu.Lock()
	defer b.objectsMu.Unlock()
	delete(b.objects, o)
	return len(b.objects) == 0
}

func (b *backlog) isEmpty() bool {
	b.objectsMu.Lock()
	defer b.objectsMu.Unlock()
	return len(b.objects) == 0
}

// seenAt returns the zero time for an object outside the backlog.
func (b *backlog) seenAt(o object) time.Time {
	b.objectsMu.Lock()
	defer b.objectsMu.Unlock()
	return b.objects[o]
}

// updateBacklog changes the backlog of a policy, and its status if the time differs.
func (c *Controller) updateBacklog(ctx context.Context, policy string, change func(*policyBacklog)) error {
	c.backlog.mu.Lock()
	defer c.backlog.mu.Unlock()
	before := c.backlog.policies[policy]
	after := before
	change(&after)
	if !after.since().Equal(before.since()) {
		if err := c.writeUncheckedSince(ctx, policy, after.since()); err != nil {
			return err
		}
	}
	c.backlog.set(policy, after)
	return nil
}

func (b *backlog) set(policy string, to policyBacklog) {
	if to == (policyBacklog{}) {
		delete(b.policies, policy)
		return
	}
	b.policies[policy] = to
}

// writeUncheckedSince leaves a status without adoption unchanged: then a scan of all objects is due anyway.
func (c *Controller) writeUncheckedSince(ctx context.Context, name string, since *metav1.Time) error {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if policy.Status.Adoption == nil || policy.Status.Adoption.ObservedGeneration != policy.Generation {
		return nil
	}
	return patchAdoption(ctx, c.Client, name, map[string]any{"uncheckedSince": since})
}

// recordBacklog records the wait of an object for an inspection, if it is long.
func (c *Controller) recordBacklog(ctx context.Context, policy string, o object) error {
	seen := c.backlog.seenAt(o)
	if seen.IsZero() || c.now().Sub(seen) < recordDelay {
		return nil
	}
	return c.updateBacklog(ctx, policy, func(b *policyBacklog) { b.oldest = earlier(b.oldest, seen.Add(-recordDelayMax)) })
}

// removeFromBacklog forgets an inspected object. After the last one it clears the record.
func (c *Controller) removeFromBacklog(ctx context.Context, o object) error {
	if !c.backlog.remove(o) {
		return nil
	}
	for _, policy := range c.backlog.withBacklog() {
		err := c.updateBacklog(ctx, policy, func(b *policyBacklog) {
			if c.backlog.isEmpty() {
				b.oldest = time.Time{}
			}
		})
		if err != nil {
			c.backlog.add(o, c.now())
			return err
		}
	}
	return nil
}

func (b *backlog) withBacklog() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for name, of := range b.policies {
		if !of.oldest.IsZero() {
			names = append(names, name)
		}
	}
	return names
}
