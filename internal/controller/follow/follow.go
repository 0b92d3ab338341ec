// Package follow selects the kinds in the object cache: the kinds under policy, and the kinds paid for by claims. Only
// the operator and tests import it.
package follow

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// followInterval is the time between two checks of the followed kinds without an event.
const followInterval = 10 * time.Second

// Controller follows the kinds protected by policies or paid for by claims. Claims may outlive their policy.
type Controller struct {
	catalog *catalog.Catalog
	claims  *claimcache.Cache
	objects *objectcache.Cache
	kinds   *discoverycache.Cache
	log     logr.Logger
	wake    chan struct{}
}

// New returns a controller. Once it runs, it selects the kinds in objects.
func New(policies *catalog.Catalog, claims *claimcache.Cache, objects *objectcache.Cache, kinds *discoverycache.Cache, log logr.Logger) *Controller {
	c := &Controller{catalog: policies, claims: claims, objects: objects, kinds: kinds, log: log, wake: make(chan struct{}, 1)}
	claims.OnChange(c.claimChanged)
	return c
}

// Wake requests a check soon. Several requests may become one check.
func (c *Controller) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// claimChanged requests a check for the first claim of a kind.
func (c *Controller) claimChanged(_, after *claimcache.Claim) {
	if after != nil && after.FromPolicy() && c.objects.Presence(after.Kind(), after.ObjectUID) == objectcache.Unknown {
		c.Wake()
	}
}

// Run checks until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		c.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-ticker.C:
		}
	}
}

func (c *Controller) check(ctx context.Context) {
	desired := map[schema.GroupKind]schema.GroupVersionResource{}
	for _, kind := range c.catalog.Protected().Triggers {
		desired[kind.GroupKind()] = schema.GroupVersionResource{}
	}
	for _, kind := range c.claims.Kinds() {
		desired[kind] = schema.GroupVersionResource{}
	}
	for kind := range desired {
		resource, served, err := c.kinds.ResourceFor(ctx, kind)
		if err != nil {
			// The followed kinds do not change.
			c.log.Error(err, "cannot tell whether to follow a kind, will try again", "kind", kind.String())
			resource, served = c.objects.ResourceOf(kind)
		}
		if served {
			desired[kind] = resource
		} else {
			delete(desired, kind)
		}
	}
	c.objects.Follow(ctx, desired)
}
