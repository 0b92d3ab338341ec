package engine

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// change is the outstanding work on an object after an update. It is immutable once noted: later work on the object is
// another change.
type change struct {
	kind  schema.GroupKind
	since time.Time
	// freed are the consumers that may have more after the ends of updates.
	freed []quotav1alpha1.ConsumerRef
}

// changes are the objects with outstanding work. The zero value is empty.
type changes struct {
	mu    sync.Mutex
	byUID map[types.UID]*change
}

// note records a change. It merges the outstanding work of earlier changes of the object.
func (c *changes) note(uid types.UID, noted *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	noted.since = time.Now()
	if before := c.byUID[uid]; before != nil {
		noted.freed = union(before.freed, noted.freed)
	}
	if c.byUID == nil {
		c.byUID = map[types.UID]*change{}
	}
	c.byUID[uid] = noted
}

// union returns the entries of both lists, each once. Lists have an entry for a policy, so they are short.
func union[T comparable](a, b []T) []T {
	all := slices.Clone(a)
	for _, entry := range b {
		if !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return all
}

// of returns the change of an object, or nil.
func (c *changes) of(uid types.UID) *change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byUID[uid]
}

// end removes a change, unless there is a later one of its object.
func (c *changes) end(uid types.UID, ended *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byUID[uid] == ended {
		delete(c.byUID, uid)
	}
}

// before returns the objects with a last change from before a time.
func (c *changes) before(t time.Time) map[Object]*change {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := map[Object]*change{}
	for uid, noted := range c.byUID {
		if noted.since.Before(t) {
			old[Object{noted.kind, uid}] = noted
		}
	}
	return old
}

// objectTimes are objects with the time of the last event of one sort. The zero value is empty.
type objectTimes struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

func (o *objectTimes) add(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == nil {
		o.since = map[types.UID]time.Time{}
	}
	o.since[uid] = time.Now()
}

func (o *objectTimes) has(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, match := o.since[uid]
	return match
}

// expire removes the objects with an event before a time.
func (o *objectTimes) expire(before time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, since := range o.since {
		if since.Before(before) {
			delete(o.since, uid)
		}
	}
}
