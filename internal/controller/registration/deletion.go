package registration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// usersInterval delays the next check of a deleted registration: the deletion of a thousand grants then causes only
	// a few checks.
	usersInterval = 200 * time.Millisecond
	// usersRecheck is the time between two checks without an event.
	usersRecheck = 30 * time.Second
)

// isActive reports whether a registration is active, or was at its deletion.
func isActive(registration *quotav1alpha1.ResourceRegistration) bool {
	return apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive)
}

// addFinalizer adds the finalizer to a registration before it becomes active: a registration in use cannot disappear at
// once.
func (r *Reconciler) addFinalizer(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) error {
	if !controllerutil.AddFinalizer(registration, quotav1alpha1.FinalizerInUse) {
		return nil
	}
	if err := r.Client.Update(ctx, registration); err != nil {
		return fmt.Errorf("add the finalizer to ResourceRegistration %s: %w", registration.Name, err)
	}
	return nil
}

// removeFinalizer removes the finalizer of a deleted registration without users. Until then it reports the users.
func (r *Reconciler) removeFinalizer(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(registration, quotav1alpha1.FinalizerInUse) {
		return reconcile.Result{}, nil
	}
	blocking, err := r.blocking(ctx, registration)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocking != "" {
		return reconcile.Result{RequeueAfter: usersRecheck}, r.reportInUse(ctx, registration, blocking)
	}
	updated := registration.DeepCopy()
	controllerutil.RemoveFinalizer(updated, quotav1alpha1.FinalizerInUse)
	if err := r.Client.Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from ResourceRegistration %s: %w", registration.Name, err)
	}
	return reconcile.Result{}, nil
}

// blocking returns the users of a deleted registration. The cache suffices to find users; only the API server can prove
// their absence.
func (r *Reconciler) blocking(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error) {
	if !isActive(registration) {
		return "", nil
	}
	users, err := findUsers(ctx, r.Client, registration, 0)
	if err != nil {
		return "", err
	}
	if blocking := users.Blocking(registration); blocking != "" {
		return blocking, nil
	}
	if users, err = FindUsers(ctx, r.Live, registration); err != nil {
		return "", err
	}
	return users.Blocking(registration), nil
}

// reportInUse writes the users of a deleted registration into its status.
func (r *Reconciler) reportInUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration, blocking string) error {
	updated := registration.DeepCopy()
	changed := apimeta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{
		Type: quotav1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonRegistrationInUse,
		Message: "being deleted: " + blocking, ObservedGeneration: registration.Generation,
	})
	if !changed {
		return nil
	}
	updated.Status.ObservedGeneration = registration.Generation
	if err := r.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of ResourceRegistration %s: %w", registration.Name, err)
	}
	return nil
}

// usersChanged enqueues the registrations in deletion, a little later, after each change of a possible user.
func (r *Reconciler) usersChanged() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue) {
		var list quotav1alpha1.ResourceRegistrationList
		if err := r.Client.List(ctx, &list); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list registrations")
			return
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp != nil {
				q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}}, usersInterval)
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectNew.GetDeletionTimestamp() != nil {
				enqueue(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { enqueue(ctx, q) },
	}
}

// differences names the fields that differ between two registrations, among those that define the meaning of amounts.
// One registration can replace another, with its grants and claims, only without such differences.
func differences(a, b *quotav1alpha1.ResourceRegistrationSpec) []string {
	var fields []string
	add := func(name string, differs bool) {
		if differs {
			fields = append(fields, name)
		}
	}
	add("baseUnit", a.BaseUnit != b.BaseUnit)
	add("consumerType", a.Consumer() != b.Consumer())
	add("type", a.Type != b.Type)
	return fields
}
