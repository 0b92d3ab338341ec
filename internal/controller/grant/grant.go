// Package grant sets the limits in the ledgers from the ResourceGrants, and reports which grants are active. Its unit
// of work is a consumer: all its grants together make up its limits. Only the operator and tests import it.
package grant

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// Ledgers stores the limits.
type Ledgers interface {
	SetGrants(ctx context.Context, consumer quotav1alpha1.ConsumerRef, active func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error)) error
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
	// Loaded, if set, is closed once Catalog holds every registration. Limits do not change before that, because an
	// empty catalog would remove them.
	Loaded <-chan struct{}
	// Stored, if set, has the grants in the ledgers at the start. The reconciler waits until it is complete.
	Stored *Stored
	// RegistrationsChanged delivers an event after each change of registrations.
	RegistrationsChanged <-chan event.TypedGenericEvent[client.Object]
	// Consumers delivers further consumers: at the start, those with limits in a ledger, because their last grant may
	// have been deleted.
	Consumers <-chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef]
}

// Reconcile implements [reconcile.TypedReconciler]. It writes the ledger first, so that an active grant can be used at
// once.
func (r *Reconciler) Reconcile(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (reconcile.Result, error) {
	if err := r.waitLoaded(ctx); err != nil {
		return reconcile.Result{}, err
	}
	cached, err := grantsOf(ctx, r.Client, consumer, byConsumer(consumer))
	if err != nil {
		return reconcile.Result{}, err
	}
	active, results := r.evaluate(cached)
	if r.Stored == nil || !r.Stored.holds(consumer, active) {
		err = r.Ledgers.SetGrants(ctx, consumer, func(ctx context.Context, held []ledger.Grant) ([]ledger.Grant, error) {
			active, results, err = r.verify(ctx, consumer, cached, held)
			return active, err
		})
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("set the limits of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	var errs []error
	for _, v := range results {
		errs = append(errs, r.report(ctx, v))
	}
	return reconcile.Result{}, errors.Join(errs...)
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

// report writes the result for a grant into its status.
func (r *Reconciler) report(ctx context.Context, v result) error {
	updated := v.grant.DeepCopy()
	condition := metav1.Condition{
		Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantActive,
		Message:            fmt.Sprintf("%s %s may use what is granted", v.grant.Spec.ConsumerRef.Kind, v.grant.Spec.ConsumerRef.Name),
		ObservedGeneration: v.grant.Generation,
	}
	if v.reason != "" {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, quotav1alpha1.ReasonValidationFailed, v.reason
	}
	apimeta.SetStatusCondition(&updated.Status.Conditions, condition)
	updated.Status.ObservedGeneration = v.grant.Generation
	updated.Status.Gives = message.Allowances(r.Catalog, v.grant.Spec.Allowances)
	if equality.Semantic.DeepEqual(v.grant.Status, updated.Status) {
		return nil
	}
	// A conflict means that the result is out of date. An event follows its newer version.
	if err := r.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of ResourceGrant %s/%s: %w", v.grant.Namespace, v.grant.Name, err)
	}
	return nil
}
