// Package grant sets the limits in the ledgers from the ResourceGrants, and reports which grants are active. Its unit
// of work is a consumer: all its grants together make up its limits. Only the operator and tests import it.
package grant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
)

// Ledgers stores the limits.
type Ledgers interface {
	SetGrants(ctx context.Context, consumer quotav1alpha1.ConsumerRef, active func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error)) error
}

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

// Registrations returns the reason why the active registrations do not allow a grant, or nil.
type Registrations interface {
	CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error
	// CheckNew returns the reason why one of these resource types takes no further grants.
	CheckNew(resourceTypes ...string) error
	message.Registrations
}

// Reconciler sets limits and reports on grants.
type Reconciler struct {
	// Client reads from a cache.
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live    client.Reader
	Catalog Registrations
	Ledgers Ledgers
	// Clock is the API server's clock.
	Clock  Clock
	Events *events.Recorder
	// ExpiryNotice is how long before its end a grant is expiring.
	ExpiryNotice time.Duration
	// Loaded, if set, closes once Catalog holds every registration. Limits do not change before then, because an empty
	// catalog would remove them.
	Loaded <-chan struct{}
	// Stored, if set, has the grants in the ledgers at the start. The reconciler waits until it is complete.
	Stored *Stored
	// Totals has the sums of the grants in the ledgers of all consumers.
	Totals *Totals
	// RegistrationsChanged delivers an event after each change of registrations.
	RegistrationsChanged <-chan event.TypedGenericEvent[client.Object]
	// Consumers delivers further consumers: at the start, those with limits in a ledger, because their last grant may
	// no longer exist.
	Consumers <-chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef]

	// queue has the consumers to reconcile. It exists before the first reconcile.
	queue queue
}

// Reconcile implements [reconcile.TypedReconciler]. It writes the ledger first: then an active grant is usable at once.
func (r *Reconciler) Reconcile(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (reconcile.Result, error) {
	if err := r.waitLoaded(ctx); err != nil {
		return reconcile.Result{}, err
	}
	cached, err := grantsOf(ctx, r.Client, consumer, byConsumer(consumer))
	if err != nil {
		return reconcile.Result{}, err
	}
	// If the ledger holds all counting grants without regard to caps, no cap is in the way.
	active, results := r.evaluate(cached, r.Clock.Now(), nil)
	if r.Stored == nil || !r.Stored.holds(consumer, active) {
		err = r.Ledgers.SetGrants(ctx, consumer, func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error) {
			active, results, err = r.verify(ctx, consumer, cached, held)
			if err == nil {
				err = r.checkAllowed(ctx, results)
			}
			return active, err
		})
		if err == nil {
			r.settle(consumer, active, results)
		}
	}
	if errors.Is(err, errUndecided) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // the registration's event usually comes first
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("set the limits of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	errs := []error{r.reportExcess(ctx, active)}
	for _, v := range results {
		errs = append(errs, r.report(ctx, v))
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.nextLook(results)}, nil
}

// settle records the grants in the ledger of a consumer. It enqueues the consumers with grants that fit into the
// returned room, and the consumer itself if it has such grants.
func (r *Reconciler) settle(consumer quotav1alpha1.ConsumerRef, stored []ledger.Grant, results []result) {
	waitsFor, isCapped := sums{}, false
	for _, v := range results {
		isCapped = isCapped || v.active.Reason == quotav1alpha1.ReasonCapReached
		for resourceType, sum := range v.waitsFor {
			if least, ok := waitsFor[resourceType]; !ok || sum < least {
				waitsFor[resourceType] = sum
			}
		}
	}
	r.Totals.keepSelective(consumer, stored)
	freed := r.Totals.settle(consumer, sumsOf(stored...), waitsFor)
	for _, resourceType := range freed {
		var maxTotal ledger.Amount
		if registration := r.Catalog.Registration(resourceType); registration != nil {
			maxTotal = ledger.Amount(registration.MaxTotal)
		}
		r.enqueue(r.Totals.fitting(resourceType, maxTotal)...)
	}
	if len(freed) > 0 && isCapped {
		r.enqueue(consumer)
	}
}

func (r *Reconciler) enqueue(consumers ...quotav1alpha1.ConsumerRef) {
	for _, consumer := range consumers {
		r.queue.Add(consumer)
	}
}

// lookAgain is the longest time until the next evaluation of grants before their begin or end, because somebody may set
// the clock of the API server.
const lookAgain = 10 * time.Minute

// nextLook returns the time until a result changes by itself, or 0 if none does.
func (r *Reconciler) nextLook(results []result) time.Duration {
	var next time.Time
	for _, v := range results {
		ends := endsOf(&v.grant.Spec, v.at)
		times := []time.Time{v.grant.Spec.NextBegin(v.at)}
		for _, e := range ends {
			times = append(times, e.at, e.at.Add(-r.ExpiryNotice))
		}
		for _, at := range times {
			if at.After(v.at) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	if next.IsZero() {
		return 0
	}
	// The time may have come since the evaluation.
	return max(time.Millisecond, min(next.Sub(r.Clock.Now()), lookAgain))
}

// waitLoaded waits for the registrations and the stored grants.
func (r *Reconciler) waitLoaded(ctx context.Context) error {
	awaited := []<-chan struct{}{r.Loaded}
	if r.Stored != nil {
		awaited = append(awaited, r.Stored.complete)
	}
	for _, done := range awaited {
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// report writes the result for a grant into its status, and records events on a near or past end.
func (r *Reconciler) report(ctx context.Context, v result) error {
	updated := v.grant.DeepCopy()
	conditions := &updated.Status.Conditions
	v.active.ObservedGeneration = v.grant.Generation
	apimeta.SetStatusCondition(conditions, v.active)
	progress.Set(conditions, v.state, v.active)
	r.setExpiring(conditions, v)
	updated.Status.ObservedGeneration = v.grant.Generation
	updated.Status.Gives = message.Allowances(r.Catalog, v.grant.Spec.Allowances)
	if equality.Semantic.DeepEqual(v.grant.Status, updated.Status) {
		return nil
	}
	err := r.Client.Status().Update(ctx, updated)
	switch {
	case err == nil:
		r.recordEnds(v, updated)
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		// The result is out of date. An event follows its newer version.
	default:
		return fmt.Errorf("update the status of ResourceGrant %s/%s: %w", v.grant.Namespace, v.grant.Name, err)
	}
	return nil
}
