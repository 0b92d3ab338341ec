package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

// deploymentWorkers is the number of concurrent reconciles of WorkloadDeployments.
const deploymentWorkers = 4

// deployments reconciles WorkloadDeployments with their Instances.
type deployments struct {
	cached   client.Client
	live     client.Reader
	quota    *claims.Client
	recorder events.EventRecorder
}

func (r *deployments) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&computev1alpha1.WorkloadDeployment{}).
		Owns(&computev1alpha1.Instance{}).
		Watches(&quotav1alpha1.EffectiveResourceGrant{}, handler.EnqueueRequestsFromMapFunc(r.blockedBy)).
		WithOptions(controller.Options{MaxConcurrentReconciles: deploymentWorkers}).
		Complete(r)
}

// blockedBy returns requests for the deployments waiting for the quota of a Project, because their messages have its
// figures.
func (r *deployments) blockedBy(ctx context.Context, object client.Object) (blocked []reconcile.Request) {
	consumer := object.(*quotav1alpha1.EffectiveResourceGrant).Spec.ConsumerRef
	if consumer.APIGroup != projectGroup || consumer.Kind != projectKind {
		return nil
	}
	var namespaces corev1.NamespaceList
	err := r.cached.List(ctx, &namespaces, client.MatchingLabels{LabelProject: consumer.Name})
	for i := range namespaces.Items {
		var list computev1alpha1.WorkloadDeploymentList
		err = errors.Join(err, r.cached.List(ctx, &list, client.InNamespace(namespaces.Items[i].Name)))
		for n := range list.Items {
			if list.Items[n].Status.QuotaBlockedReplicas > 0 {
				blocked = append(blocked, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[n])})
			}
		}
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "find the WorkloadDeployments of a Project", "project", consumer.Name)
	}
	return blocked
}

// Reconcile implements [reconcile.Reconciler].
func (r *deployments) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	deployment := &computev1alpha1.WorkloadDeployment{}
	if err := r.cached.Get(ctx, request.NamespacedName, deployment); err != nil || deployment.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	reader := client.Reader(r.cached)
	if deployment.Spec.Quota.WaitingTTL != nil { // never count expired Instances twice
		reader = r.live
		if err := reader.Get(ctx, request.NamespacedName, deployment); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	var all computev1alpha1.InstanceList
	if err := reader.List(ctx, &all, client.InNamespace(deployment.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	usage, err := r.usage(ctx, deployment, all.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := planFor(deployment, all.Items, usage, time.Now())
	err = r.carryOut(ctx, deployment, plan)
	if err != nil {
		return later(err)
	}
	return ctrl.Result{RequeueAfter: plan.again}, nil
}

// usage reads the usage of a deployment's Project if replicas wait.
func (r *deployments) usage(ctx context.Context, deployment *computev1alpha1.WorkloadDeployment, all []computev1alpha1.Instance) ([]claims.Usage, error) {
	isWaiting := deployment.Status.QuotaBlockedReplicas > 0
	for i := range all {
		isWaiting = isWaiting || isBlocked(&all[i]) && metav1.IsControlledBy(&all[i], deployment)
	}
	if !isWaiting {
		return nil, nil
	}
	project, err := projectOf(ctx, r.cached, deployment.Namespace)
	if project == nil || err != nil {
		return nil, err
	}
	return r.quota.Usage(ctx, *project)
}

// carryOut carries out a plan. It removes expired Instances before it counts them. In the reverse order, a crash in
// between would remove others instead of them. carryOut returns a conflict after it has done everything else.
func (r *deployments) carryOut(ctx context.Context, deployment *computev1alpha1.WorkloadDeployment, p plan) error {
	conflict := r.remove(ctx, deployment, &p)
	if conflict != nil && !apierrors.IsConflict(conflict) {
		return conflict
	}
	if !equality.Semantic.DeepEqual(deployment.Status, p.status) {
		updated := deployment.DeepCopy()
		updated.Status = p.status
		patch := client.MergeFromWithOptions(deployment, client.MergeFromWithOptimisticLock{})
		if err := r.cached.Status().Patch(ctx, updated, patch); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	for _, instance := range p.update {
		updated := instance.DeepCopy()
		updated.Spec = *deployment.Spec.Template.Spec.DeepCopy()
		if err := r.cached.Patch(ctx, updated, client.MergeFromWithOptions(instance, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("change Instance %s: %w", instance.Name, err)
		}
	}
	for _, name := range p.create {
		if err := r.create(ctx, deployment, name); err != nil {
			r.recorder.Eventf(deployment, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%v", err)
			return err
		}
	}
	return conflict
}

// remove deletes the Instances in a plan. Instances with a change since then stay, and do not count as expired: Bursar
// may have granted them.
func (r *deployments) remove(ctx context.Context, deployment *computev1alpha1.WorkloadDeployment, p *plan) (conflict error) {
	gone := 0
	for i, instance := range p.remove {
		err := r.cached.Delete(ctx, instance, client.Preconditions{UID: &instance.UID, ResourceVersion: &instance.ResourceVersion})
		isExpired := i < p.expiredRemovals
		switch {
		case apierrors.IsConflict(err):
			conflict = err
			if isExpired {
				p.status.QuotaExpiredReplicas = max(p.status.QuotaExpiredReplicas-1, 0)
			}
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("delete Instance %s: %w", instance.Name, err)
		case isExpired:
			gone++
		}
	}
	if gone > 0 {
		r.recorder.Eventf(deployment, nil, corev1.EventTypeWarning, "GaveUpWaiting", "Delete", "Deleted %d Instances that had waited for quota for %s",
			gone, deployment.Spec.Quota.WaitingTTL.Duration)
	}
	return conflict
}

// create creates an Instance, unless it exists and the cache lags behind.
func (r *deployments) create(ctx context.Context, deployment *computev1alpha1.WorkloadDeployment, name string) error {
	labels := maps.Clone(deployment.Spec.Template.Metadata.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[computev1alpha1.LabelWorkloadDeployment] = deployment.Name
	instance := &computev1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: name, Labels: labels},
		Spec:       *deployment.Spec.Template.Spec.DeepCopy(),
	}
	if err := controllerutil.SetControllerReference(deployment, instance, r.cached.Scheme()); err != nil {
		return err
	}
	if err := r.cached.Create(ctx, instance); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Instance %s: %w", name, err)
	}
	return nil
}
