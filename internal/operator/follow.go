package operator

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

// followInterval is how often the followed kinds are checked without a cause.
const followInterval = 10 * time.Second

// follower keeps the kinds whose objects are followed in step with the policies that protect
// them and the claims that pay for them: a policy may go while its claims stay.
type follower struct {
	catalog *catalog.Catalog
	claims  *claimcache.Cache
	objects *objectcache.Objects
	kinds   *discoverycache.Kinds
	log     logr.Logger
	wake    chan struct{}
}

// Wake asks for a check soon. Many requests may become one check.
func (f *follower) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// claimChanged asks for a check where a claim is the first of its kind.
func (f *follower) claimChanged(_, after *claimcache.Claim) {
	if after != nil && after.FromPolicy() && f.objects.Presence(after.Kind(), after.ObjectUID) == objectcache.Unknown {
		f.Wake()
	}
}

// run checks until ctx ends.
func (f *follower) run(ctx context.Context) error {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		f.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-ticker.C:
		}
	}
}

func (f *follower) check(ctx context.Context) {
	wanted := map[schema.GroupKind]schema.GroupVersionResource{}
	for _, kind := range f.catalog.Guarded().Triggers {
		wanted[kind.GroupKind()] = schema.GroupVersionResource{}
	}
	for _, kind := range f.claims.Kinds() {
		wanted[kind] = schema.GroupVersionResource{}
	}
	for kind := range wanted {
		resource, served, err := f.kinds.ResourceFor(ctx, kind)
		if err != nil {
			// What is followed stays so; the other kinds are no worse off.
			f.log.Error(err, "cannot tell whether to follow a kind, will try again", "kind", kind.String())
			resource, served = f.objects.ResourceOf(kind)
		}
		if served {
			wanted[kind] = resource
		} else {
			delete(wanted, kind)
		}
	}
	f.objects.Follow(ctx, wanted)
}
