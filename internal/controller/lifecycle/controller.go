// Package lifecycle ties claims to the objects that they pay for.
//
// When an object appears for which reservations are in flight, their claims are created, marked
// as granted and settled. When an object is gone, its claims are deleted and what is still
// reserved for it is cancelled. A reservation whose object never appears is given up once the
// API server can no longer be working on the create.
//
// When an object changes that a policy follows, its claim comes to hold what the policy now asks
// (change.go, reconcile.go).
//
// All work on one object is done by one worker at a time, so a claim is never made for an
// object while it is being cleaned up after.
package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// workers is how many objects are worked on at a time. Each waits for the API server most
	// of the time.
	workers = 24
	// sweepInterval is how often reservations are checked for their age.
	sweepInterval = 5 * time.Second
)

// Controller is the lifecycle controller. Its fields are set once; call Start before the
// caches run, then Run.
type Controller struct {
	Store           *ledgerstore.Store
	Engine          *engine.Engine
	Objects         *objectcache.Cache
	Claims          *claimcache.Cache
	Client          *claims.Client
	Catalog         *catalog.Catalog
	SystemNamespace string
	// Evaluator, Live and Kinds are for finding out what policies ask of objects that exist.
	Evaluator *evaluator.Evaluator
	Live      dynamic.Interface
	Kinds     discoverycache.Resolver
	// Preferred tells for which consumers this replica does at once what any may do.
	Preferred routing.Preferred
	// Events records what people should notice of objects. It may be nil.
	Events EventRecorder
	Log    logr.Logger

	queue    workqueue.TypedRateLimitingInterface[object]
	mu       sync.Mutex
	gone     map[types.UID]time.Time
	changing map[types.UID]*changing
	// granted are the reservations, by claim, that wait for the cache to show their claims.
	granted map[types.UID]ledgerstore.InFlight
	// absent are the objects that the sweep has to look at, and matched the lists of objects that it has held all claims
	// against. Nobody else uses matched.
	absent  absent
	matched map[schema.GroupKind]int64
	// refusals are those of the namespaces that claims belong in.
	refusals refusals
}

// EventRecorder records events on objects.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// object is what one item of work is about.
type object struct {
	kind schema.GroupKind
	uid  types.UID
}

// Start registers the controller with what it follows.
func (c *Controller) Start() {
	c.gone, c.changing, c.granted = map[types.UID]time.Time{}, map[types.UID]*changing{}, map[types.UID]ledgerstore.InFlight{}
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[object](5*time.Millisecond, 5*time.Second))
	c.Objects.OnAppear(c.appeared)
	c.Objects.OnModify(c.modified)
	c.Objects.OnVanish(c.vanished)
	c.Claims.OnChange(c.claimChanged)
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	sweeps.Go(func() { c.sweepRegularly(ctx) })
	worker.Run(ctx, c.queue, workers, c.process, func(o object, err error) {
		switch {
		case errors.Is(err, errEarlierClaim):
		case apierrors.IsConflict(err):
			c.Log.V(1).Info("another replica was quicker", "kind", o.kind.String(), "uid", o.uid, "err", err.Error())
		default:
			c.Log.Error(err, "will try again", "kind", o.kind.String(), "uid", o.uid)
		}
	})
	return nil
}

func (c *Controller) appeared(kind schema.GroupKind, uid types.UID) {
	reservations := c.Store.ReservationsFor(string(uid))
	if len(reservations) > 0 {
		routing.Share(c.queue, func() bool { return slices.ContainsFunc(reservations, c.isOurs) }, object{kind, uid})
	}
}

// isOurs tells whether what is reserved is first of all for this replica to conclude.
func (c *Controller) isOurs(reservation ledgerstore.InFlight) bool {
	return reservation.IsOwn || c.Preferred.Here(reservation.Consumer)
}

// vanished announces what is about to be released before anything else happens, so that no
// create is refused for capacity that is as good as free.
func (c *Controller) vanished(kind schema.GroupKind, uid types.UID) {
	// In this order: a reservation ends after its claim is in the cache.
	isListed := c.Claims.HasSynced()
	reservations := c.Store.ReservationsFor(string(uid))
	owned := c.Claims.ForObject(uid)
	for _, claim := range owned {
		c.Store.ExpectRelease(claim.Consumer(), string(claim.UID))
	}
	for _, reservation := range reservations {
		c.Store.ExpectRelease(reservation.Consumer, reservation.Key)
	}
	// A claim of it that is yet to be listed is announced once it is.
	isCharged := len(owned) > 0 || len(reservations) > 0 || !isListed
	c.mu.Lock()
	change := c.changing[uid]
	delete(c.changing, uid)
	if isCharged {
		c.gone[uid] = time.Now()
	}
	c.mu.Unlock()
	if len(owned) > 0 {
		c.absent.add(object{kind, uid})
	}
	if change != nil {
		for _, consumer := range change.freed {
			c.Store.ReleaseDone(consumer, releaseOf(uid))
		}
	}
	if isCharged {
		keeps := func(claim *claimcache.Claim) bool { return c.Preferred.Here(claim.Consumer()) }
		isOurs := func() bool {
			return !isListed || slices.ContainsFunc(owned, keeps) || slices.ContainsFunc(reservations, c.isOurs)
		}
		routing.Share(c.queue, isOurs, object{kind, uid})
	}
}

// claimChanged catches claims whose object went away before the claim was seen, and objects whose
// claim went away before them.
func (c *Controller) claimChanged(before, after *claimcache.Claim) {
	if after == nil && before.FromPolicy() && c.Objects.Presence(before.Kind(), before.ObjectUID) == objectcache.Present {
		c.restore(before.Kind(), before.ObjectUID, before.Policy())
		return
	}
	if after == nil || !after.FromPolicy() {
		return
	}
	c.settleSeen(after.UID)
	if after.Deleting {
		return
	}
	isAbsent := c.Objects.Presence(after.Kind(), after.ObjectUID) == objectcache.Absent
	if isAbsent {
		c.absent.add(object{after.Kind(), after.ObjectUID})
	}
	if c.IsGone(after.ObjectUID) {
		c.Store.ExpectRelease(after.Consumer(), string(after.UID))
		routing.Share(c.queue, c.Preferred.For(after.Consumer()), object{after.Kind(), after.ObjectUID})
	} else if isAbsent {
		routing.Share(c.queue, c.Preferred.For(after.Consumer()), object{after.Kind(), after.ObjectUID})
	}
}

// IsGone tells whether the object of that UID was seen to vanish.
func (c *Controller) IsGone(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, gone := c.gone[uid]
	return gone
}

// sweepRegularly looks at every reservation in flight, and at claims whose object is not there.
func (c *Controller) sweepRegularly(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		c.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Controller) sweep(ctx context.Context) {
	for _, reservation := range c.Store.Reservations() {
		// A young reservation of ours is being worked on.
		age := sweepInterval
		if !c.isOurs(reservation) {
			age = routing.TakeoverDelay
		}
		if time.Since(reservation.KnownSince) < age {
			continue
		}
		if o, ok := objectOf(reservation); ok {
			c.queue.Add(o)
		}
	}
	c.sweepOrphans(ctx)
	for _, claim := range c.Claims.Undecided(c.isUncharged) {
		c.restore(claim.Kind(), claim.ObjectUID, claim.Policy())
	}
	for _, o := range c.changedLongAgo() {
		c.queue.Add(o)
	}
	c.forgetEnded()
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, since := range c.gone {
		if time.Since(since) > 2*c.Store.ReservationLifetime {
			delete(c.gone, uid)
		}
	}
}

// isUncharged tells whether a claim of an object that exists should have been granted long ago, and nothing is
// reserved that it could be granted by.
func (c *Controller) isUncharged(claim *claimcache.Claim) bool {
	return c.Preferred.Here(claim.Consumer()) &&
		time.Since(time.Unix(claim.Created, 0)) > c.Store.ReservationLifetime &&
		c.Objects.Presence(claim.Kind(), claim.ObjectUID) == objectcache.Present && !c.isChanging(claim.ObjectUID) &&
		len(c.Store.ReservationsFor(string(claim.ObjectUID))) == 0
}
