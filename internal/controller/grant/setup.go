package grant

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
)

// consumersAtOnce is the number of concurrent reconciles of consumers.
const consumersAtOnce = 4

type queue = workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]

// IndexConsumers makes the cache find the grants of a consumer. Call it once, before the cache starts.
func IndexConsumers(ctx context.Context, cache client.FieldIndexer) error {
	err := cache.IndexField(ctx, &quotav1alpha1.ResourceGrant{}, consumerField, func(object client.Object) []string {
		return []string{byConsumer(consumerOf(object))[consumerField]}
	})
	if err != nil {
		return fmt.Errorf("find grants by consumer: %w", err)
	}
	return nil
}

// SetupWithManager registers the reconciler. [IndexConsumers] has prepared the cache.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	consumers := handler.TypedFuncs[client.Object, quotav1alpha1.ConsumerRef]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q queue) { q.Add(consumerOf(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
			q.Add(consumerOf(e.ObjectOld))
			q.Add(consumerOf(e.ObjectNew))
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q queue) { q.Add(consumerOf(e.Object)) },
	}
	differing := handler.TypedFuncs[client.Object, quotav1alpha1.ConsumerRef]{
		GenericFunc: func(ctx context.Context, _ event.TypedGenericEvent[client.Object], q queue) {
			r.enqueueDiffering(ctx, q)
		},
	}
	given := handler.TypedFuncs[quotav1alpha1.ConsumerRef, quotav1alpha1.ConsumerRef]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[quotav1alpha1.ConsumerRef], q queue) {
			q.Add(e.Object)
		},
	}
	return builder.TypedControllerManagedBy[quotav1alpha1.ConsumerRef](mgr).
		Named("grant").
		Watches(&quotav1alpha1.ResourceGrant{}, consumers).
		WatchesRawSource(source.TypedChannel[client.Object, quotav1alpha1.ConsumerRef](r.RegistrationsChanged, differing)).
		WatchesRawSource(source.TypedChannel[quotav1alpha1.ConsumerRef, quotav1alpha1.ConsumerRef](r.Consumers, given)).
		WatchesRawSource(source.TypedFunc[quotav1alpha1.ConsumerRef](func(_ context.Context, q queue) error {
			r.queue = q
			return nil
		})).
		WithOptions(controller.TypedOptions[quotav1alpha1.ConsumerRef]{MaxConcurrentReconciles: consumersAtOnce}).
		Complete(r)
}

func consumerOf(object client.Object) quotav1alpha1.ConsumerRef {
	return object.(*quotav1alpha1.ResourceGrant).Spec.ConsumerRef
}

// enqueueDiffering enqueues the consumers of grants with another status than the result by the current registrations. A
// concurrent write of a status by older registrations causes an event of its own, and the event reconciles the consumer
// again.
//
// A cap may be higher now: consumers waiting for room come first, in the order of waiting.
func (r *Reconciler) enqueueDiffering(ctx context.Context, q queue) {
	for _, consumer := range r.Totals.waiters() {
		q.Add(consumer)
	}
	var list quotav1alpha1.ResourceGrantList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list grants")
		return
	}
	for i := range list.Items {
		if r.differs(&list.Items[i]) {
			q.Add(list.Items[i].Spec.ConsumerRef)
		}
	}
}

// differs reports whether the registrations contradict the status of a grant, or may have changed its reason or its
// display unit.
func (r *Reconciler) differs(grant *quotav1alpha1.ResourceGrant) bool {
	isActive := apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive)
	return !isActive && !isExpired(grant) || r.Catalog.CheckGrant(&grant.Spec) != nil || grant.Status.Gives != message.Allowances(r.Catalog, grant.Spec.Allowances)
}
