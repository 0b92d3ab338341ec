// Package registration decides which ResourceRegistrations are active: those with a served consumer kind and a resource
// type without an older registration. It keeps a deleted one as long as grants or enabled policies use it. Only the
// operator and tests import it.
package registration

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/progress"
)

// Reconciler reports whether registrations are active.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live  client.Reader
	Kinds *discoverycache.Cache
	// KindsChanged delivers an event whenever the served kinds may have changed.
	KindsChanged <-chan event.TypedGenericEvent[client.Object]
}

// SetupWithManager registers the reconciler. A change of one registration affects all of the same type, and a change of
// the served kinds affects all. So each event enqueues all: there are few.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	return ctrl.NewControllerManagedBy(mgr).
		Named("registration").
		Watches(&quotav1alpha1.ResourceRegistration{}, all).
		Watches(&quotav1alpha1.ResourceGrant{}, r.usersChanged()).
		Watches(&quotav1alpha1.ClaimCreationPolicy{}, r.usersChanged()).
		WatchesRawSource(source.Channel(r.KindsChanged, all)).
		Complete(r)
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list quotav1alpha1.ResourceRegistrationList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list registrations")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	registration := &quotav1alpha1.ResourceRegistration{}
	if err := r.Client.Get(ctx, request.NamespacedName, registration); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if registration.DeletionTimestamp != nil {
		return r.removeFinalizer(ctx, registration)
	}
	if isFilled, err := r.fillConsumerType(ctx, registration); isFilled || err != nil {
		return reconcile.Result{}, err // an event follows
	}
	state, problem, err := r.problem(ctx, registration)
	if err != nil {
		return reconcile.Result{}, err
	}
	if state == progress.Reached {
		if err := r.addFinalizer(ctx, registration); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil // an event follows its newer version
		} else if err != nil {
			return reconcile.Result{}, err
		}
	}
	updated := registration.DeepCopy()
	report(updated, state, problem)
	if equality.Semantic.DeepEqual(registration.Status, updated.Status) {
		return reconcile.Result{}, nil
	}
	// A conflict means that the result is out of date. An event follows its newer version.
	if err := r.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("update the status of ResourceRegistration %s: %w", registration.Name, err)
	}
	return reconcile.Result{}, nil
}

// fillConsumerType gives a registration from before the webhook for this both names of its consumer kind, and reports
// whether it lacked one.
func (r *Reconciler) fillConsumerType(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (isFilled bool, err error) {
	spec := &registration.Spec
	if spec.ConsumerType == spec.ConsumerTypeRef {
		return false, nil
	}
	updated := registration.DeepCopy()
	updated.Spec.ConsumerType, updated.Spec.ConsumerTypeRef = spec.Consumer(), spec.Consumer()
	if err := r.Client.Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return true, fmt.Errorf("fill in both names of the consumer kind of ResourceRegistration %s: %w", registration.Name, err)
	}
	return true, nil
}

// problem returns [progress.Reached] if a registration can be active, or why it cannot.
func (r *Reconciler) problem(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (progress.State, string, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := r.Client.List(ctx, &list); err != nil {
		return progress.Waiting, "", fmt.Errorf("list registrations: %w", err)
	}
	switch older := olderOf(registration, list.Items); {
	case older == nil:
	case older.DeletionTimestamp != nil:
		return progress.Waiting, fmt.Sprintf("resource type %q is registered by ResourceRegistration %s, which is being deleted and has another %s; "+
			"use the same, or wait until it is gone", registration.Spec.ResourceType, older.Name,
			strings.Join(differences(&older.Spec, &registration.Spec), " and ")), nil
	default:
		return progress.Stalled, fmt.Sprintf("resource type %q is already registered by ResourceRegistration %s; delete one of the two", registration.Spec.ResourceType, older.Name), nil
	}
	ref := registration.Spec.Consumer()
	consumer := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	_, served, err := r.Kinds.ResourceFor(ctx, consumer)
	if err != nil {
		return progress.Waiting, "", err
	}
	// An active registration stays active: grants and policies depend on it, and a kind may be unavailable for a while.
	if !served && !apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive) {
		return progress.Waiting, fmt.Sprintf("consumer kind %s is not served by this API server; install its CustomResourceDefinition", consumer), nil
	}
	return progress.Reached, "", nil
}

// olderOf returns an older registration of the same resource type, or nil. A registration being deleted yields to one
// with the same meaning for its grants and claims.
func olderOf(registration *quotav1alpha1.ResourceRegistration, all []quotav1alpha1.ResourceRegistration) *quotav1alpha1.ResourceRegistration {
	for i := range all {
		older := &all[i]
		if older.Spec.ResourceType != registration.Spec.ResourceType || !precedes(older, registration) {
			continue
		}
		if older.DeletionTimestamp == nil || isActive(older) && len(differences(&older.Spec, &registration.Spec)) > 0 {
			return older
		}
	}
	return nil
}

// precedes reports whether a is older than b; names decide between those of the same second.
func precedes(a, b *quotav1alpha1.ResourceRegistration) bool {
	if a.UID == b.UID {
		return false
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// activeMessage is the message of an active registration. Tests of platforms compare it as a whole.
const activeMessage = "The registration is active and resource grants and claims can now be created for this resource type."

func report(registration *quotav1alpha1.ResourceRegistration, state progress.State, problem string) {
	condition := metav1.Condition{
		Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonRegistrationActive,
		Message:            activeMessage,
		ObservedGeneration: registration.Generation,
	}
	if state != progress.Reached {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, quotav1alpha1.ReasonValidationFailed, problem
	}
	if c := apimeta.FindStatusCondition(registration.Status.Conditions, condition.Type); c != nil && c.Reason == quotav1alpha1.ReasonRegistrationPending {
		// It is the default of the schema, with a meaningless time.
		apimeta.RemoveStatusCondition(&registration.Status.Conditions, condition.Type)
	}
	apimeta.SetStatusCondition(&registration.Status.Conditions, condition)
	progress.Set(&registration.Status.Conditions, state, condition)
	registration.Status.ObservedGeneration = registration.Generation
}
