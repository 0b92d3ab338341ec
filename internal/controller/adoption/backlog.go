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
	// unnotedFor is more than it takes until it is noted that an object was created without a review.
	// Which they were, of that time before a process ended, nobody knows.
	unnotedFor = time.Minute
	// notedAfter is how long objects may wait before that is noted: mostly they are looked at first.
	notedAfter = unnotedFor / 3
)

// unchecked is what is noted, in the status of policies, of objects that may lack a claim and that
// are still to be looked at, for a process that comes after this one.
type unchecked struct {
	objectsMu sync.Mutex
	objects   map[object]time.Time // that were not reviewed, and when they were seen

	// mu is held while a status is written, so that what is stored last is what is so.
	mu       sync.Mutex
	policies map[string]uncheckedOf
}

// uncheckedOf is what is unchecked for one policy. The zero value is nothing.
type uncheckedOf struct {
	// paused is when the policy came to be out of force, until all objects have been looked at.
	paused time.Time
	// backlog is when the oldest of the objects was created that were not reviewed.
	backlog time.Time
}

func newUnchecked() unchecked {
	return unchecked{objects: map[object]time.Time{}, policies: map[string]uncheckedOf{}}
}

// since returns nil if nothing is unchecked.
func (u uncheckedOf) since() *metav1.Time {
	since := earlier(u.paused, u.backlog)
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

func (u *unchecked) add(o object, now time.Time) {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	if _, known := u.objects[o]; !known {
		u.objects[o] = now
	}
}

// remove tells whether there are none left.
func (u *unchecked) remove(o object) bool {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	delete(u.objects, o)
	return len(u.objects) == 0
}

func (u *unchecked) isEmpty() bool {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	return len(u.objects) == 0
}

// seen returns the zero time for an object that is not to be looked at.
func (u *unchecked) seen(o object) time.Time {
	u.objectsMu.Lock()
	defer u.objectsMu.Unlock()
	return u.objects[o]
}

// note changes what is unchecked for a policy, and its status if that says otherwise.
func (c *Controller) note(ctx context.Context, policy string, change func(*uncheckedOf)) error {
	c.unchecked.mu.Lock()
	defer c.unchecked.mu.Unlock()
	before := c.unchecked.policies[policy]
	after := before
	change(&after)
	if !after.since().Equal(before.since()) {
		if err := c.writeUnchecked(ctx, policy, after.since()); err != nil {
			return err
		}
	}
	c.unchecked.set(policy, after)
	return nil
}

func (u *unchecked) set(policy string, to uncheckedOf) {
	if to == (uncheckedOf{}) {
		delete(u.policies, policy)
		return
	}
	u.policies[policy] = to
}

// writeUnchecked leaves a status alone that says nothing of adoption yet: then all objects are still
// to be looked at anyway.
func (c *Controller) writeUnchecked(ctx context.Context, name string, since *metav1.Time) error {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if policy.Status.Adoption == nil || policy.Status.Adoption.ObservedGeneration != policy.Generation {
		return nil
	}
	return patchAdoption(ctx, c.Client, name, map[string]any{"uncheckedSince": since})
}

// noteBacklog notes, if it takes long, that an object is to be looked at that a policy was not asked about.
func (c *Controller) noteBacklog(ctx context.Context, policy string, o object) error {
	seen := c.unchecked.seen(o)
	if seen.IsZero() || c.now().Sub(seen) < notedAfter {
		return nil
	}
	return c.note(ctx, policy, func(u *uncheckedOf) { u.backlog = earlier(u.backlog, seen.Add(-unnotedFor)) })
}

// looked forgets an object that was looked at, and what is noted once it was the last one.
func (c *Controller) looked(ctx context.Context, o object) error {
	if !c.unchecked.remove(o) {
		return nil
	}
	for _, policy := range c.unchecked.withBacklog() {
		err := c.note(ctx, policy, func(u *uncheckedOf) {
			if c.unchecked.isEmpty() {
				u.backlog = time.Time{}
			}
		})
		if err != nil {
			c.unchecked.add(o, c.now())
			return err
		}
	}
	return nil
}

func (u *unchecked) withBacklog() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var names []string
	for name, of := range u.policies {
		if !of.backlog.IsZero() {
			names = append(names, name)
		}
	}
	return names
}
