// Package engine takes claims from state to state, together with their reservations in the ledger: it makes, confirms, amends,
// settles, withdraws, supersedes, releases and finds them. The controllers of objects and claims are queues around it, and the
// webhook on protected kinds is HTTP around it.
//
// A policy's claim goes through these steps. The webhook reserves what an object costs; [Engine.Process] makes the claim once
// the object exists, grants it, and settles the reservation. [Engine.PrepareUpdate] reserves what an update of the object adds,
// and [Engine.Reconcile] has the claim follow. Once the object is gone, Process deletes the claim, and [Engine.Release] gives
// back what it holds. A claim that somebody creates directly is decided by [Engine.Decide] and resized by [Engine.Resize].
//
// Each step may be found done already, by this process before a crash or by another one. All work on one object is done under
// its lock, so nobody makes a claim for an object while somebody else cleans up after it.
package engine

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Dependencies are what an engine works with.
type Dependencies struct {
	Store   *ledgerstore.Store
	Claims  *claimcache.Cache
	Client  *claims.Client
	Catalog *catalog.Catalog
	Objects *objectcache.Cache
	// Evaluator, Live and Kinds are for finding out what policies ask of objects that exist.
	Evaluator *evaluator.Evaluator
	Live      dynamic.Interface
	Kinds     discoverycache.Resolver
	// Policies read ClaimCreationPolicies, one after the other until one knows a policy: a cache, and the API server.
	Policies        []client.Reader
	SystemNamespace string
	// Events records what people should notice of objects and claims. It may be nil.
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
	queue   workqueue.TypedRateLimitingInterface[Object]
	gone    gone
	changes changes
	granted granted
	denials claimDenials
	named   *namedObjects
}

// Object is a protected object of which the claims need work.
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

// Queue holds the objects that [Engine.Process] has to look at. Whoever calls Process takes them from here; others add to it
// what they notice.
func (e *Engine) Queue() workqueue.TypedRateLimitingInterface[Object] { return e.queue }

// transient marks an error as one that is worth another try.
func transient(err error) error {
	if err == nil {
		return nil
	}
	return &evaluator.TransientError{Err: err}
}

// ObjectOf returns the object that a reservation is for, or false; claims created directly have none.
func ObjectOf(reservation ledgerstore.InFlight) (Object, bool) {
	uid := ledgerstore.ObjectUID(reservation.Key)
	if uid == "" {
		return Object{}, false
	}
	intent, err := claims.IntentOf(reservation.Claim)
	if err != nil {
		return Object{}, false
	}
	return Object{intent.Kind.GroupKind(), types.UID(uid)}, true
}

func kindOf(reservation ledgerstore.InFlight) schema.GroupKind {
	o, _ := ObjectOf(reservation)
	return o.Kind
}

// IsInFlight reports whether a reservation is in flight under its key and sequence, as far as this process knows.
func (e *Engine) IsInFlight(r ledgerstore.InFlight) bool {
	known, is := e.Store.ReservationOf(r.Consumer, r.Key)
	return is && known.Sequence == r.Sequence
}

// isReserved tells whether a reservation is in the books as they are now.
func (e *Engine) isReserved(ctx context.Context, reservation ledgerstore.InFlight) (is bool, err error) {
	err = e.Store.View(ctx, reservation.Consumer, func(current *ledger.Ledger) {
		held, ok := current.Reservation(reservation.Key)
		is = ok && held.Sequence == reservation.Sequence
	})
	return is, err
}
