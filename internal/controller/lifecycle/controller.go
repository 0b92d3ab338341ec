// Package lifecycle follows the objects under claims, and starts the engine on them. It does so when an object with
// in-flight reservations appears or changes, and when an object with claims disappears. It also does so when a
// reservation's object never appears, although the API server can no longer be working on the create, or when a
// directly created claim does not change. Only the operator and tests import it.
package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// workers is the number of objects in concurrent work. Each mostly waits for the API server.
	workers = 24
	// sweepInterval is the time between two checks of the age of reservations.
	sweepInterval = 5 * time.Second
)

// Controller is the lifecycle controller. Set its fields once; call Start before the caches run, then Run.
type Controller struct {
	Store   *ledgerstore.Store
	Engine  *engine.Engine
	Objects *objectcache.Cache
	Claims  *claimcache.Cache
	// Replicas share the work. Each replica does the shared work at once for the consumers with it as preferred
	// replica.
	Replicas routing.Replicas
	Log      logr.Logger

	// absent are the objects for the sweep to check. matched are the lists of objects already compared with all claims;
	// only the sweep uses it.
	absent  absent
	matched map[schema.GroupKind]int64
}

// Start registers the controller's handlers.
func (c *Controller) Start() {
	c.Objects.OnAppear(c.appeared)
	c.Objects.OnModify(c.modified)
	c.Objects.OnDeleting(c.deleting)
	c.Objects.OnVanish(c.vanished)
	c.Claims.OnChange(c.claimChanged)
	c.Store.SubscribeRecorded(c.recorded)
}

// Run processes objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	sweeps.Go(func() { c.sweepRegularly(ctx) })
	sweeps.Go(func() { c.Store.RunObservers(ctx, c.Log) })
	worker.Run(ctx, c.Engine.Queue(), workers, c.Engine.Process, func(o engine.Object, err error) {
		switch {
		case errors.Is(err, engine.ErrEarlierClaim):
		case apierrors.IsConflict(err):
			c.Log.V(1).Info("the object or its claim has changed meanwhile", "kind", o.Kind.String(), "uid", o.UID, "err", err.Error())
		default:
			c.Log.Error(err, "will try again", "kind", o.Kind.String(), "uid", o.UID)
		}
	})
	return nil
}

// appeared makes the claims of an object from the reservations of this replica. The sweep sees to those of others.
func (c *Controller) appeared(kind schema.GroupKind, uid types.UID) {
	// Without other replicas, the owner of any other reservation was an earlier process.
	mayMake := func(reservation ledgerstore.InFlight) bool {
		return reservation.AwaitsClaim() && (reservation.IsOwn || c.Replicas.IsOnly())
	}
	if slices.ContainsFunc(c.Store.ReservationsFor(string(uid)), mayMake) {
		c.Engine.Queue().Add(engine.Object{Kind: kind, UID: uid})
	}
}

// recorded ends a reservation recorded after its object was gone again, or after the end of its create.
func (c *Controller) recorded(reservation ledgerstore.InFlight) {
	if o, ok := engine.ObjectOf(reservation); ok && c.Engine.IsOver(o.UID) {
		c.Engine.Queue().Add(o)
	}
}

// isOurs reports whether this replica is preferred to conclude a reservation.
func (c *Controller) isOurs(reservation ledgerstore.InFlight) bool {
	return reservation.IsOwn || c.Replicas.IsPreferred(reservation.Consumer)
}

// heldBy returns the reservations and the claims of an object.
func (c *Controller) heldBy(uid types.UID) (reservations []ledgerstore.InFlight, owned []*claimcache.Claim) {
	reservations = c.Store.ReservationsFor(string(uid))
	return reservations, c.Claims.ForObject(uid)
}

// deleting announces the deletion of an object, so that no create gets a denial for lack of capacity that is about to
// be free. The deletion may begin a while before the end of the object: finalizers, a grace period or the deletion of
// its dependents hold it.
func (c *Controller) deleting(_ schema.GroupKind, uid types.UID) {
	reservations, owned := c.heldBy(uid)
	for _, claim := range owned {
		c.Store.ExpectDeletion(claim.Consumer(), string(claim.UID))
	}
	for _, reservation := range reservations {
		c.Store.ExpectDeletion(reservation.Consumer, reservation.Key)
	}
}

// vanished announces the coming release before anything else.
func (c *Controller) vanished(kind schema.GroupKind, uid types.UID) {
	isListed := c.Claims.HasSynced()
	reservations, owned := c.heldBy(uid)
	for _, claim := range owned {
		c.Store.ExpectRelease(claim.Consumer(), string(claim.UID))
	}
	for _, reservation := range reservations {
		c.Store.ExpectRelease(reservation.Consumer, reservation.Key)
	}

	// The announcement of a later listed claim comes then.
	isCharged := len(owned) > 0 || len(reservations) > 0 || !isListed
	c.Engine.Vanished(uid, isCharged)
	if len(owned) > 0 {
		c.absent.add(engine.Object{Kind: kind, UID: uid})
	}
	if isCharged {
		keeps := func(claim *claimcache.Claim) bool { return c.Replicas.IsPreferred(claim.Consumer()) }
		isOurs := func() bool {
			return !isListed || slices.ContainsFunc(owned, keeps) || slices.ContainsFunc(reservations, c.isOurs)
		}
		routing.Enqueue(c.Engine.Queue(), isOurs, engine.Object{Kind: kind, UID: uid})
	}
}

// claimChanged handles claims that appear after the end of their object.
func (c *Controller) claimChanged(before, after *claimcache.Claim) {
	if after == nil || !after.FromPolicy() {
		return
	}
	if after.Deleting {
		return
	}
	if before == nil && c.Objects.IsDeleting(after.Kind(), after.ObjectUID) {
		c.Store.ExpectDeletion(after.Consumer(), string(after.UID)) // it began before the claim was there
	}
	if len(c.Claims.ForObject(after.ObjectUID)) > 1 {
		routing.Enqueue(c.Engine.Queue(), routing.PreferredFor(c.Replicas, after.Consumer()), objectOf(after)) // maybe by one policy
	}
	isAbsent := c.Objects.Presence(after.Kind(), after.ObjectUID) == objectcache.Absent
	switch {
	case c.Engine.IsGone(after.ObjectUID):
		c.Store.ExpectRelease(after.Consumer(), string(after.UID))
	case isAbsent:
		c.Store.ExpectDeletion(after.Consumer(), string(after.UID)) // it may have gone before the claim was there
	default:
		return
	}
	if isAbsent {
		c.absent.add(objectOf(after))
	}
	routing.Enqueue(c.Engine.Queue(), routing.PreferredFor(c.Replicas, after.Consumer()), objectOf(after))
}

// modified queues an object with admitted updates after a change.
func (c *Controller) modified(kind schema.GroupKind, uid types.UID) {
	c.Engine.Modified(engine.Object{Kind: kind, UID: uid})
}

// objectOf returns the object of a policy's claim.
func objectOf(claim *claimcache.Claim) engine.Object {
	return engine.Object{Kind: claim.Kind(), UID: claim.ObjectUID}
}

// sweepRegularly checks every reservation in flight, and the claims of absent objects.
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
	c.sweepReservations(ctx)
	c.sweepOrphans(ctx)
	c.Engine.Sweep()
	c.Store.SweepStock()
}

// takeoverDelay returns the age from which on a sweep sees to a reservation. Its owner comes first.
func takeoverDelay(reservation ledgerstore.InFlight) time.Duration {
	if reservation.IsOwn {
		return sweepInterval
	}
	return routing.TakeoverDelay
}

// sweepReservations queues the objects of old reservations. A young reservation of ours is in progress.
func (c *Controller) sweepReservations(ctx context.Context) {
	isRead := map[quotav1alpha1.ConsumerRef]bool{} // the ledgers read in this sweep
	for _, reservation := range c.Store.Reservations() {
		isOurs := c.isOurs(reservation)
		if time.Since(reservation.KnownSince) < takeoverDelay(reservation) {
			continue
		}
		if !isOurs && !isRead[reservation.Consumer] {
			// This replica does not follow the ledger, so the reservation may have ended.
			if err := c.Store.View(ctx, reservation.Consumer, func(*ledger.Ledger) {}); err != nil {
				c.Log.Error(err, "will take over reservations later", "consumer", reservation.Consumer.Kind+"/"+reservation.Consumer.Name)
				continue
			}
			isRead[reservation.Consumer] = true
		}
		if o, ok := engine.ObjectOf(reservation); ok && (isOurs || c.Engine.IsInFlight(reservation)) {
			c.Engine.Queue().Add(o)
		}
		if isOurs && c.Store.HasSeen(reservation) {
			c.Store.ObserveAgain(reservation.Consumer) // whoever should have done so may have died
		}
	}
}
