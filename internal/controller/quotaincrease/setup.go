package quotaincrease

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// namespacesAtOnce is the number of concurrent reconciles of namespaces.
const namespacesAtOnce = 4

// SetupWithManager registers the reconciler of namespaces and the reconciler of the status.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	status := &statusReconciler{Client: r.Client, Definitions: r.Definitions, outcomes: &r.outcomes}
	r.outcomes.onChange = status.enqueue
	r.Definitions.onChange = r.enqueueAll
	controlled := ctrl.NewControllerManagedBy(mgr).
		Named("quotaincrease").
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(itself), builder.WithPredicates(updates(differsInMetadata))).
		// Creates and changes of configurations take effect after their validation.
		Watches(&openmcpv1alpha1.QuotaServiceConfig{}, handler.EnqueueRequestsFromMapFunc(r.everyNamespace), builder.WithPredicates(onlyDeletion)).
		WatchesRawSource(source.Func(func(_ context.Context, queue requests) error {
			r.queue.Store(&queue)
			return nil
		})).
		Watches(&openmcpv1alpha1.QuotaIncrease{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(updates(differsBesidesStatus))).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(updates(quotaDiffers))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: namespacesAtOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 30*time.Second),
		})
	if !r.WithoutCaps {
		controlled = controlled.
			Watches(&quotav1alpha1.LocalResourceQuotaAllocation{}, handler.EnqueueRequestsFromMapFunc(r.ifHeldBack), builder.WithPredicates(updates(leavesOtherRoom))).
			Watches(&quotav1alpha1.LocalResourceQuotaAllocation{}, handler.EnqueueRequestsFromMapFunc(r.afterProjection), builder.WithPredicates(onlyDeletion)).
			Watches(&quotav1alpha1.ResourceQuotaAllocation{}, handler.EnqueueRequestsFromMapFunc(r.afterAllocation), builder.WithPredicates(onlyDeletion))
	}
	if err := controlled.Complete(r); err != nil {
		return err
	}
	return status.setupWithManager(mgr)
}

func itself(_ context.Context, object client.Object) []reconcile.Request {
	return requestFor(object.GetName())
}

func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return requestFor(object.GetNamespace())
}

func requestFor(namespace string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: namespace}}}
}

// ifHeldBack queues a namespace after a change of its cap, if the change may make a difference.
func (r *Reconciler) ifHeldBack(_ context.Context, object client.Object) []reconcile.Request {
	if !r.outcomes.isHeldBack(object.GetNamespace()) {
		return nil
	}
	return requestFor(object.GetNamespace())
}

// afterProjection queues the namespace of a deleted projection, see [Reconciler.afterCap].
func (r *Reconciler) afterProjection(_ context.Context, object client.Object) []reconcile.Request {
	return r.afterCap(object.GetNamespace())
}

// afterAllocation queues the namespaces of a deleted allocation, see [Reconciler.afterCap]. The garbage collector
// removes the projections later.
func (r *Reconciler) afterAllocation(ctx context.Context, object client.Object) []reconcile.Request {
	selector, err := metav1.LabelSelectorAsSelector(&object.(*quotav1alpha1.ResourceQuotaAllocation).Spec.Selector)
	if err != nil {
		return nil // it capped nothing
	}
	members, err := namespacesFrom(ctx, r.Client, client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the namespaces of the deleted ResourceQuotaAllocation", "allocation", object.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range members {
		requests = append(requests, r.afterCap(members[i].Name)...)
	}
	return requests
}

// afterCap queues a namespace after the end of a cap, if the cap may hold something back there. It tries again soon
// and more than once: the webhook's replica may learn of the end later.
func (r *Reconciler) afterCap(namespace string) []reconcile.Request {
	if !r.outcomes.isHeldBack(namespace) {
		return nil
	}
	r.outcomes.capEnded(namespace)
	return requestFor(namespace)
}

func (r *Reconciler) everyNamespace(ctx context.Context, _ client.Object) []reconcile.Request {
	all, err := namespacesFrom(ctx, r.Client)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list namespaces")
		return nil
	}
	var requests []reconcile.Request
	for i := range all {
		requests = append(requests, requestFor(all[i].Name)...)
	}
	return requests
}

// enqueueAll queues every namespace. Without a queue it does nothing, because the start queues all.
func (r *Reconciler) enqueueAll(ctx context.Context) {
	queue := r.queue.Load()
	if queue == nil {
		return
	}
	for _, request := range r.everyNamespace(ctx, nil) {
		(*queue).Add(request)
	}
}

// onlyDeletion lets only deletions through.
var onlyDeletion = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func namespacesFrom(ctx context.Context, from client.Reader, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := from.List(ctx, list, options...); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// updates lets through updates with a difference, and all other events.
func updates(differs func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return differs(e.ObjectOld, e.ObjectNew) }}
}

func differsInMetadata(before, after client.Object) bool {
	return !maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) || before.GetUID() != after.GetUID()
}

// differsBesidesStatus reports whether more than the status of an object has changed.
func differsBesidesStatus(before, after client.Object) bool {
	return differsInMetadata(before, after) || before.GetGeneration() != after.GetGeneration()
}

// leavesOtherRoom reports whether the room of a namespace may have changed.
func leavesOtherRoom(before, after client.Object) bool {
	old, new := before.(*quotav1alpha1.LocalResourceQuotaAllocation), after.(*quotav1alpha1.LocalResourceQuotaAllocation)
	return !equality.Semantic.DeepEqual(old.Status.Available, new.Status.Available) || !equality.Semantic.DeepEqual(old.Spec, new.Spec)
}

// quotaDiffers compares contents, because a ResourceQuota has no generation, and its status changes with each object in
// the namespace.
func quotaDiffers(before, after client.Object) bool {
	old, new := before.(*corev1.ResourceQuota), after.(*corev1.ResourceQuota)
	return differsInMetadata(old, new) || !equality.Semantic.DeepEqual(old.Spec, new.Spec) || !equality.Semantic.DeepEqual(old.OwnerReferences, new.OwnerReferences)
}
