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
	// recordDelayMax is more than it takes until it is noted that an object was created without a review.
	// Which they were, of that time before a process ended, nobody knows.
	recordDelayMax = time.Minute
	// recordDelay is how long objects may wait before that is noted: mostly they are looked at first.
	recordDelay = recordDelayMax / 3
)

// backlog is what is noted, in the status of policies, of objects that may lack a claim and that
// are still to be looked at, for a process that comes after this one.
type backlog struct {
	objectsMu sync.Mutex
	objects   map[object]time.Time // that were not reviewed, and when they were seen

	// mu is held while a status is written, so that what is stored last is what is so.
	mu       sync.Mutex
	policies map[string]policyBacklog
}

// policyBacklog is what is unchecked for one policy. The zero value is nothing.
type policyBacklog struct {
	// paused is when the policy came to be out of force, until all objects have been looked at.
	paused time.Time
	// backlog is when the oldest of the objects was created that were not reviewed.
	oldest time.Time
}

func newBacklog() backlog {
	return backlog{objects: map[object]time.Time{}, policies: map[string]policyBacklog{}}
}

// since returns nil if nothing is unchecked.
func (u policyBacklog) since() *metav1.Time {
	since := earlier(u.paused, u.oldest)
	if since.IsZero() {
		return nil
	}
	return &metav1.Time{Time: since}
}

// earlier returns the earlier of two times, of which a zero one says nothing.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (u *backlog) add(o object, now time.Time) {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	if _, known := u.objects[o]; !known {
		u.objects[o] = now
	}
}

// remove tells whether there are none left.
func (u *backlog) remove(o object) bool {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	delete(u.objects, o)
	return len(u.objects) == 0
}

func (u *backlog) isEmpty() bool {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	return len(u.objects) == 0
}

// seen returns the zero time for an object that is not to be looked at.
func (u *backlog) seenAt(o object) time.Time {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	return u.objects[o]
}

// note changes what is unchecked for a policy, and its status if that says otherwise.
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

func (u *backlog) set(policy string, to policyBacklog) {
	if to == (policyBacklog{}) {
		delete(u.policies, policy)
		return
	}
	u.policies[policy] = to
}

// writeUncheckedSince leaves a status alone that says nothing of adoption yet: then all objects are still
// to be looked at anyway.
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

// recordBacklog notes, if it takes long, that an object is to be looked at that a policy was not asked about.
func (c *Controller) recordBacklog(ctx context.Context, policy string, o object) error {
	seen := c.backlog.seenAt(o)
	if seen.IsZero() || c.now().Sub(seen) < recordDelay {
		return nil
	}
	return c.updateBacklog(ctx, policy, func(u *policyBacklog) { u.oldest = earlier(u.oldest, seen.Add(-recordDelayMax)) })
}

// looked forgets an object that was looked at, and what is noted once it was the last one.
func (c *Controller) removeFromBacklog(ctx context.Context, o object) error {
	if !c.backlog.remove(o) {
		return nil
	}
	for _, policy := range c.backlog.withBacklog() {
		err := c.updateBacklog(ctx, policy, func(u *policyBacklog) {
			if c.backlog.isEmpty() {
				u.oldest = time.Time{}
			}
		})
		if err != nil {
			c.backlog.add(o, c.now())
			return err
		}
	}
	return nil
}

func (u *backlog) withBacklog() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var names []string
	for name, of := range u.policies {
		if !of.oldest.IsZero() {
			names = append(names, name)
		}
	}
	return names
}
