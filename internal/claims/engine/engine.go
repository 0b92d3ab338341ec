// Package engine makes, decides, resizes and releases claims of record, and ends requests without an effect. The
// controllers of objects and claims are queues around it, and the webhook in package enforce is HTTP around it. Both
// import it.
//
// Claims of record count like objects: the ledger observes what they demand. A policy's claim goes through these steps.
// The webhook reserves the cost of an object. [Engine.Process] makes the claim once the object exists, and the ledger
// ends the reservation once it observes the claim. Once the object is deleted, Process deletes the claim, and
// [Engine.Release] lets it go.
//
// A claim created directly by a user demands what it was granted. [Engine.Decide] decides it, [Engine.Resize] resizes
// it, and Release lets it go.
//
// Policies that count objects have no claims here.
//
// Each step may already be done, by this process before a crash or by another process. All work on one object holds
// its lock, so no goroutine makes a claim for an object while another one cleans up after it.
package engine

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Dependencies are the dependencies of an engine.
type Dependencies struct {
	Store   *ledgerstore.Store
	Claims  *claimcache.Cache
	Client  *claims.Client
	Catalog *catalog.Catalog
	Objects *objectcache.Cache
	// Policies read ClaimCreationPolicies, in this order until one has a policy: a cache, and the API server.
	Policies        []client.Reader
	SystemNamespace string
	// Events records noteworthy events of objects and claims. It may be nil.
	Events EventRecorder
	Log    logr.Logger
}

// EventRecorder records events on objects.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Engine changes claims and ledgers. It is safe for concurrent use.
type Engine struct {
	Dependencies
	queue    workqueue.TypedRateLimitingInterface[Object]
	gone     objectTimes // deleted objects
	ended    objectTimes // objects whose create has ended
	updates  openUpdates
	changes  changes
	refusals claims.Refusals
	named    *namedObjects
}

// Object is a protected object with claims that need work, or a directly created claim.
type Object struct {
	Kind schema.GroupKind
	UID  types.UID
}

// New returns an engine.
func New(d Dependencies) *Engine {
	return &Engine{
		Dependencies: d,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Object](5*time.Millisecond, 5*time.Second)),
		named: newNamedObjects(),
	}
}

// Queue returns the queue of objects for [Engine.Process]. The caller of Process takes objects from it; other
// components add their observed objects.
func (e *Engine) Queue() workqueue.TypedRateLimitingInterface[Object] { return e.queue }

// ObjectOf returns the object of a reservation: the claim itself, if somebody created it directly.
func ObjectOf(reservation ledgerstore.InFlight) (Object, bool) {
	uid := types.UID(reservation.ObjectUID())
	if reservation.Awaits != nil && reservation.Awaits.Kind == inventory.Claims && !reservation.AwaitsClaim() {
		return Object{inventory.ClaimKind.GroupKind(), uid}, true
	}
	intent, err := claims.IntentOf(reservation.Claim)
	if err != nil || uid == "" {
		return Object{}, false
	}
	return Object{intent.Kind.GroupKind(), uid}, true
}

// IsInFlight reports whether this process knows a reservation with this key and sequence.
func (e *Engine) IsInFlight(r ledgerstore.InFlight) bool {
	known, is := e.Store.ReservationOf(r.Consumer, r.Key)
	return is && known.Sequence == r.Sequence
}
