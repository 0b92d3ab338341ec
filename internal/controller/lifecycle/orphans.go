package lifecycle

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// absent are the possibly deleted objects with claims. Event handlers add a disappearing object, or the missing object
// of a claim. So the sweep need not check all claims.
type absent struct {
	mu      sync.Mutex
	objects map[engine.Object]struct{}
}

func (a *absent) add(o engine.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.objects == nil {
		a.objects = map[engine.Object]struct{}{}
	}
	a.objects[o] = struct{}{}
}

// take returns the objects and forgets them. The caller adds the still absent ones again.
func (a *absent) take() map[engine.Object]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	objects := a.objects
	a.objects = nil
	return objects
}

// sweepOrphans checks the claims of absent objects.
func (c *Controller) sweepOrphans(ctx context.Context) {
	c.matchNewLists()
	for o := range c.absent.take() {
		if slices.ContainsFunc(c.Claims.ForObject(o.UID), c.isOrphan) {
			c.absent.add(o)
			c.Engine.Queue().Add(o)
		}
	}
	for _, kind := range c.Claims.Kinds() {
		// There is no list of the objects of an unfollowed kind, and an unserved kind allows none. Their existence is
		// unknown unless the kind no longer exists.
		if _, isFollowed := c.Objects.ResourceOf(kind); isFollowed || !c.Objects.IsUndefined(ctx, kind) {
			continue
		}
		for _, claim := range c.Claims.Select(func(claim *claimcache.Claim) bool { return claim.Kind() == kind && isPaying(claim) }) {
			c.Engine.Queue().Add(engine.Object{Kind: kind, UID: claim.ObjectUID})
		}
	}
}

// matchNewLists compares all claims with the objects listed since the last time: some may have disappeared while nobody
// followed their kind.
func (c *Controller) matchNewLists() {
	lists := c.Objects.Lists()
	isNew := func(kind schema.GroupKind) bool {
		list, isListed := lists[kind]
		return isListed && c.matched[kind] != list
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(lists)), isNew) {
		for _, claim := range c.Claims.Select(func(claim *claimcache.Claim) bool { return isNew(claim.Kind()) && c.isOrphan(claim) }) {
			c.absent.add(objectOf(claim))
		}
	}
	c.matched = lists
}

// isPaying reports whether a claim is a policy's claim without a deletion under way.
func isPaying(claim *claimcache.Claim) bool { return claim.FromPolicy() && !claim.Deleting }

// isOrphan reports whether a claim's object certainly does not exist.
func (c *Controller) isOrphan(claim *claimcache.Claim) bool {
	return isPaying(claim) && c.Objects.Presence(claim.Kind(), claim.ObjectUID) == objectcache.Absent
}
