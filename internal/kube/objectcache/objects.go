// Package objectcache knows the existing objects of the protected kinds, only by their names and UIDs. It follows the
// API server with one metadata-only watch for each kind, so it may lag by milliseconds; [Cache.Exists] and
// [Cache.IsAlive] ask the API server itself. Like all of kube it knows no quota, and any internal package may import
// it.
package objectcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// Handler receives objects that appear, change and vanish. It must return quickly, and not call [Cache.UIDOf] or
// [Cache.ReportGone].
type Handler func(kind schema.GroupKind, uid types.UID)

// Cache follows the objects of any number of kinds. It is safe for concurrent use.
type Cache struct {
	client   metadata.Interface
	states   discoverycache.States
	appeared []Handler
	modified []Handler
	deleting []Handler
	vanished []Handler

	// isExpected reports whether an unavailable kind is expected back. It may be nil.
	isExpected func(schema.GroupKind) bool

	mu    sync.RWMutex
	kinds map[schema.GroupKind]*kind
	// lists counts the follows of kinds.
	lists int64
	// unavailable are the kinds expected to come back, with the times from which they are unavailable.
	unavailable map[schema.GroupKind]time.Time
}

// New returns a Cache that follows no kind yet.
func New(client metadata.Interface, states discoverycache.States) *Cache {
	return &Cache{client: client, states: states, kinds: map[schema.GroupKind]*kind{}, unavailable: map[schema.GroupKind]time.Time{}}
}

// Expect registers f to decide whether a kind should come back after its aggregated API server is gone. Until then its
// objects count as existing, for at most unavailableMax. Call it before use.
func (o *Cache) Expect(f func(schema.GroupKind) bool) { o.isExpected = f }

// OnAppear registers f for the objects in the first list of their kind and for those created later. Register before the
// first call of Follow.
func (o *Cache) OnAppear(f Handler) { o.appeared = append(o.appeared, f) }

// OnModify registers f for changed objects.
func (o *Cache) OnModify(f Handler) { o.modified = append(o.modified, f) }

// OnDeleting registers f for objects whose deletion begins, or has begun before they appear, and that finalizers or a
// grace period hold for a while. f runs once for each object, after the handlers of its appearance.
func (o *Cache) OnDeleting(f Handler) { o.deleting = append(o.deleting, f) }

// OnVanish registers f for known objects that are gone. A UID never comes back.
func (o *Cache) OnVanish(f Handler) { o.vanished = append(o.vanished, f) }

// Follow replaces the set of followed kinds, each with the resource to watch. Following ends with ctx.
func (o *Cache) Follow(ctx context.Context, desired map[schema.GroupKind]schema.GroupVersionResource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for groupKind, k := range o.kinds {
		if resource, ok := desired[groupKind]; !ok || resource != k.resource {
			k.stop()
			delete(o.kinds, groupKind)
		}
	}
	for groupKind, resource := range desired {
		delete(o.unavailable, groupKind)
		if o.kinds[groupKind] == nil {
			o.lists++
			o.kinds[groupKind] = o.start(ctx, groupKind, resource)
		}
	}
}

// Lists numbers the complete lists of the followed kinds. A kind gets another number after a gap in which deletions
// went unnoticed.
func (o *Cache) Lists() map[schema.GroupKind]int64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	lists := make(map[schema.GroupKind]int64, len(o.kinds))
	for groupKind, k := range o.kinds {
		if k.isListed() {
			lists[groupKind] = k.list
		}
	}
	return lists
}

// ResourceOf returns the resource of a followed kind, and false if it is not followed.
func (o *Cache) ResourceOf(groupKind schema.GroupKind) (schema.GroupVersionResource, bool) {
	if k := o.kind(groupKind); k != nil {
		return k.resource, true
	}
	return schema.GroupVersionResource{}, false
}

// WaitForSync waits for the first list of a followed kind.
func (o *Cache) WaitForSync(ctx context.Context, groupKind schema.GroupKind) error {
	k := o.kind(groupKind)
	if k == nil {
		return fmt.Errorf("objects of kind %s are not followed", groupKind)
	}
	select {
	case <-k.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of %s: %w", k.resource, ctx.Err())
	}
}

// UIDOf returns the UID of the known object with a name. When it returns, the handlers of the object's appearance, or
// of its end, have returned, too.
func (o *Cache) UIDOf(groupKind schema.GroupKind, name types.NamespacedName) (types.UID, bool) {
	k := o.kind(groupKind)
	if k == nil {
		return "", false
	}
	return k.uidOf(name)
}

// Object is an existing object.
type Object struct {
	types.NamespacedName
	UID types.UID
}

// IsListed reports whether the objects of a kind have been listed once.
func (o *Cache) IsListed(groupKind schema.GroupKind) bool {
	k := o.kind(groupKind)
	return k != nil && k.isListed()
}

// All reports whether the kind is listed and holds returns true for each of its objects.
func (o *Cache) All(groupKind schema.GroupKind, holds func(Object) bool) bool {
	k := o.kind(groupKind)
	return k != nil && k.isListed() && k.all(holds)
}

// Presence is the known state of one object.
type Presence int

const (
	// Unknown means that the cache does not follow the kind, or has not listed it yet.
	Unknown Presence = iota
	// Present means that the object exists.
	Present
	// Absent means that the cache does not know the object. It may be too new.
	Absent
)

// Presence returns whether the object with a UID exists, as far as the cache knows.
func (o *Cache) Presence(groupKind schema.GroupKind, uid types.UID) Presence {
	k := o.kind(groupKind)
	if k == nil {
		return Unknown
	}
	return k.presence(uid)
}

func (o *Cache) kind(groupKind schema.GroupKind) *kind {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.kinds[groupKind]
}

// IsDeleting reports whether the cache has seen the deletion of an existing object begin.
func (o *Cache) IsDeleting(groupKind schema.GroupKind, uid types.UID) bool {
	k := o.kind(groupKind)
	return k != nil && k.isDeleting(uid)
}

// ReportGone removes an object missing from another read, for a watch that is behind.
func (o *Cache) ReportGone(groupKind schema.GroupKind, name types.NamespacedName, uid types.UID) {
	if k := o.kind(groupKind); k != nil {
		k.reportGone(name, uid)
	}
}
