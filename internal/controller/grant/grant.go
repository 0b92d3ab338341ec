// Package grant brings the limits in the ledgers in line with the ResourceGrants, and reports
// which grants are active. Its unit of work is a consumer: all grants of one make up its limits.
package grant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// Ledgers is where limits are kept.
type Ledgers interface {
	SetGrants(ctx context.Context, consumer quotav1alpha1.ConsumerRef, active func(context.Context) ([]ledger.Grant, error)) error
}

// Reconciler keeps limits and reports on grants.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live    client.Reader
	Catalog *catalog.Catalog
	Ledgers Ledgers
	// RegistrationsChanged delivers an event whenever registrations changed.
	RegistrationsChanged <-chan event.TypedGenericEvent[client.Object]
	// Consumers delivers consumers to look at for other reasons: those with limits in a ledger
	// at start, whose last grant may have been deleted meanwhile.
	Consumers <-chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef]
}

type queue = workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef]

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	consumers := handler.TypedFuncs[client.Object, quotav1alpha1.ConsumerRef]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], q queue) { q.Add(consumerOf(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
			q.Add(consumerOf(e.ObjectOld))
			q.Add(consumerOf(e.ObjectNew))
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q queue) { q.Add(consumerOf(e.Object)) },
	}
	all := handler.TypedFuncs[client.Object, quotav1alpha1.ConsumerRef]{
		GenericFunc: func(ctx context.Context, _ event.TypedGenericEvent[client.Object], q queue) { r.enqueueAll(ctx, q) },
	}
	given := handler.TypedFuncs[quotav1alpha1.ConsumerRef, quotav1alpha1.ConsumerRef]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[quotav1alpha1.ConsumerRef], q queue) {
			q.Add(e.Object)
		},
	}
	return builder.TypedControllerManagedBy[quotav1alpha1.ConsumerRef](mgr).
		Named("grant").
		Watches(&quotav1alpha1.ResourceGrant{}, consumers).
		WatchesRawSource(source.TypedChannel[client.Object, quotav1alpha1.ConsumerRef](r.RegistrationsChanged, all)).
		WatchesRawSource(source.TypedChannel[quotav1alpha1.ConsumerRef, quotav1alpha1.ConsumerRef](r.Consumers, given)).
		Complete(r)
}

func consumerOf(object client.Object) quotav1alpha1.ConsumerRef {
	return object.(*quotav1alpha1.ResourceGrant).Spec.ConsumerRef
}

func (r *Reconciler) enqueueAll(ctx context.Context, q queue) {
	var list quotav1alpha1.ResourceGrantList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list grants")
		return
	}
	for i := range list.Items {
		q.Add(list.Items[i].Spec.ConsumerRef)
	}
}

// verdict is what became of one grant: active, or why not.
type verdict struct {
	grant *quotav1alpha1.ResourceGrant
	flaw  string
}

// Reconcile implements [reconcile.TypedReconciler]. The ledger comes first, so that whoever sees
// that a grant is active can use it.
func (r *Reconciler) Reconcile(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (reconcile.Result, error) {
	var verdicts []verdict
	err := r.Ledgers.SetGrants(ctx, consumer, func(ctx context.Context) ([]ledger.Grant, error) {
		grants, err := r.grantsOf(ctx, consumer)
		if err != nil {
			return nil, err
		}
		var active []ledger.Grant
		active, verdicts = r.judge(grants)
		return active, nil
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("set the limits of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	var errs []error
	for _, v := range verdicts {
		errs = append(errs, r.report(ctx, v))
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// grantsOf reads the grants of a consumer, the oldest first.
func (r *Reconciler) grantsOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]*quotav1alpha1.ResourceGrant, error) {
	var list quotav1alpha1.ResourceGrantList
	err := r.Live.List(ctx, &list, client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name})
	if err != nil {
		return nil, fmt.Errorf("list the grants of %s %s: %w", consumer.Kind, consumer.Name, err)
	}
	var grants []*quotav1alpha1.ResourceGrant
	for i := range list.Items {
		if list.Items[i].Spec.ConsumerRef == consumer && list.Items[i].DeletionTimestamp == nil {
			grants = append(grants, &list.Items[i])
		}
	}
	slices.SortFunc(grants, func(a, b *quotav1alpha1.ResourceGrant) int {
		if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
			return d
		}
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	return grants, nil
}

// judge decides which grants are active. A grant whose amounts, added to those before it, are
// too large to count is not.
func (r *Reconciler) judge(grants []*quotav1alpha1.ResourceGrant) ([]ledger.Grant, []verdict) {
	trial := ledger.New()
	var active []ledger.Grant
	verdicts := make([]verdict, 0, len(grants))
	for _, grant := range grants {
		entry, err := entryOf(grant)
		if err == nil {
			err = r.Catalog.CheckGrant(&grant.Spec)
		}
		if err == nil {
			_, err = trial.SetGrant(entry)
		}
		v := verdict{grant: grant}
		if err != nil {
			v.flaw = err.Error()
		} else {
			active = append(active, entry)
		}
		verdicts = append(verdicts, v)
	}
	return active, verdicts
}

// entryOf is a grant in the form of the ledger.
func entryOf(grant *quotav1alpha1.ResourceGrant) (ledger.Grant, error) {
	entry := ledger.Grant{UID: string(grant.UID), Namespace: grant.Namespace, Name: grant.Name, Generation: grant.Generation}
	for _, allowance := range grant.Spec.Allowances {
		selector, err := ledgerstore.SelectorOf(allowance.DimensionSelector)
		if err != nil {
			return entry, fmt.Errorf("allowance of %s: %w", allowance.ResourceType, err)
		}
		var sum ledger.Amount
		for _, bucket := range allowance.Buckets {
			var ok bool
			if sum, ok = sum.Add(ledger.Amount(bucket.Amount)); !ok {
				return entry, fmt.Errorf("the buckets of %s add up to more than can be counted", allowance.ResourceType)
			}
		}
		entry.Allowances = append(entry.Allowances, ledger.Allowance{ResourceType: allowance.ResourceType, Selector: selector, Amount: sum})
	}
	return entry, nil
}

// report writes what became of a grant into its status.
func (r *Reconciler) report(ctx context.Context, v verdict) error {
	updated := v.grant.DeepCopy()
	condition := metav1.Condition{
		Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantActive,
		Message:            fmt.Sprintf("%s %s may use what is granted", v.grant.Spec.ConsumerRef.Kind, v.grant.Spec.ConsumerRef.Name),
		ObservedGeneration: v.grant.Generation,
	}
	if v.flaw != "" {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, quotav1alpha1.ReasonValidationFailed, v.flaw
	}
	apimeta.SetStatusCondition(&updated.Status.Conditions, condition)
	updated.Status.ObservedGeneration = v.grant.Generation
	if equality.Semantic.DeepEqual(v.grant.Status, updated.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, updated); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update the status of ResourceGrant %s/%s: %w", v.grant.Namespace, v.grant.Name, err)
	}
	return nil
}
