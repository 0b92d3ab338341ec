package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/provider"
	"github.com/bursar/bursar/sdk/claims"
)

// instanceWorkers is the number of concurrent reconciles of Instances.
const instanceWorkers = 8

const (
	// conflictPause is the time for a cache to receive the change behind a conflict.
	conflictPause = 50 * time.Millisecond
	// nameTakenPause is the time between checks of a taken name. The Instance reports the conflict.
	nameTakenPause = 10 * time.Second
)

// Reasons of conditions of an Instance with quota.
const (
	// reasonProvisioning: the machine does not exist yet.
	reasonProvisioning = "Provisioning"
	// reasonFailed: the service cannot make its machine, or bring it to its desired state. The controller retries.
	reasonFailed = "ProvisioningFailed"
)

// instances reconciles Instances with their machines.
type instances struct {
	cached   client.Client
	live     client.Reader
	quota    *claims.Client
	machines provider.Provider
	recorder events.EventRecorder
}

func (r *instances) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&computev1alpha1.Instance{}).
		Owns(&quotav1alpha1.ResourceClaim{}).
		Owns(r.machines.Kind(), builder.OnlyMetadata).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(anyProject(), handler.EnqueueRequestsFromMapFunc(r.ofProject), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: instanceWorkers}).
		Complete(r)
}

// ofProject returns requests for all Instances charged to a Project.
func (r *instances) ofProject(ctx context.Context, project client.Object) (all []reconcile.Request) {
	var list corev1.NamespaceList
	if err := r.cached.List(ctx, &list, client.MatchingLabels{LabelProject: project.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the namespaces of a Project", "project", project.GetName())
		return nil
	}
	for i := range list.Items {
		all = append(all, r.inNamespace(ctx, &list.Items[i])...)
	}
	return all
}

// inNamespace returns requests for all Instances in a namespace.
func (r *instances) inNamespace(ctx context.Context, namespace client.Object) (all []reconcile.Request) {
	var list computev1alpha1.InstanceList
	if err := r.cached.List(ctx, &list, client.InNamespace(namespace.GetName())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list Instances", "namespace", namespace.GetName())
	}
	for i := range list.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// Reconcile implements [reconcile.Reconciler].
func (r *instances) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	instance := &computev1alpha1.Instance{}
	if err := r.cached.Get(ctx, request.NamespacedName, instance); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if instance.DeletionTimestamp != nil {
		return later(r.end(ctx, instance))
	}
	before := instance.DeepCopy()
	machine, err := r.machines.Get(ctx, instance)
	switch {
	case err == nil:
		machine, err = r.ensure(ctx, instance, machine)
	case !errors.Is(err, provider.ErrNameTaken):
		return ctrl.Result{}, err // the state is unknown
	}
	if apierrors.IsConflict(err) {
		return later(err)
	}
	r.describe(&instance.Status, instance.Generation, machine, err)
	if !equality.Semantic.DeepEqual(before.Status, instance.Status) {
		err = errors.Join(err, client.IgnoreNotFound(r.cached.Status().Patch(ctx, instance, client.MergeFrom(before))))
	}
	return later(err)
}

// later returns a result to retry for errors that end by themselves or after an action of a user, and returns all
// others.
func later(err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case errors.Is(err, provider.ErrNameTaken):
		return ctrl.Result{RequeueAfter: nameTakenPause}, nil
	default:
		return ctrl.Result{}, err
	}
}

// ensure claims quota for an Instance and, once there is some, makes its machine as the quota allows.
//
// The claim is never smaller than the machine: the machine shrinks first, and the claim after it.
func (r *instances) ensure(ctx context.Context, instance *computev1alpha1.Instance, machine *provider.Machine) (*provider.Machine, error) {
	decision, request, err := r.claim(ctx, instance, machine)
	waiting := []string{computev1alpha1.ConditionProgrammed, computev1alpha1.ConditionRunning, computev1alpha1.ConditionReady}
	isLost := machine != nil && decision.State == claims.Exceeded
	if machine != nil && !isLost {
		waiting = nil
	}
	decision.Set(&instance.Status.Conditions, instance.Generation, waiting...)
	switch {
	case err != nil:
		return machine, err // an existing machine stays while the decision is unknown
	case decision.IsGranted():
		return r.provision(ctx, instance, machine, request)
	case isLost:
		// Somebody removed its claim, and there is no room for another.
		if !machine.IsEnding {
			r.recorder.Eventf(instance, nil, corev1.EventTypeWarning, "QuotaLost", "Deprovision", "Deleting the machine: %s", decision.Message)
		}
		_, err := r.machines.Delete(ctx, instance)
		return nil, err
	}
	return machine, nil
}

// claim returns the decision on the claim of an Instance, with its request. An Instance with a machine stays charged to
// the same Project. Without one, the current Project of the namespace pays.
func (r *instances) claim(ctx context.Context, instance *computev1alpha1.Instance, machine *provider.Machine) (claims.Decision, claims.Request, error) {
	project, err := projectOf(ctx, r.cached, instance.Namespace)
	if err != nil {
		return claims.Decision{Message: err.Error()}, claims.Request{}, err
	}
	needed := instance.Spec.Resources
	if machine != nil {
		needed = most(needed, machine.Resources)
	}
	request := claims.For(instance, quotav1alpha1.ConsumerRef{}, amountsOf(needed)...)
	if project != nil {
		request.Consumer = *project
	}
	if machine != nil {
		before, err := r.quota.Read(ctx, request)
		if err != nil {
			return before, request, err
		}
		if before.Claim != nil {
			request.Consumer = before.Claim.Spec.ConsumerRef
		}
	}
	if request.Consumer.Name == "" {
		return claims.Decision{State: claims.Invalid, Message: fmt.Sprintf(
			"Namespace %s belongs to no Project, so nobody pays: have an administrator label it with %s", instance.Namespace, LabelProject,
		)}, request, r.quota.Release(ctx, request)
	}
	if machine == nil {
		if exists, err := projectExists(ctx, r.cached, request.Consumer.Name); err != nil {
			return claims.Decision{Message: err.Error()}, request, err
		} else if !exists {
			return claims.Decision{State: claims.Invalid, Message: fmt.Sprintf(
				"Project %s, the payer of namespace %s, does not exist: have an administrator create it, or correct label %s of the namespace",
				request.Consumer.Name, instance.Namespace, LabelProject,
			)}, request, r.quota.Release(ctx, request)
		}
	}
	decision, err := r.quota.Ensure(ctx, request)
	if errors.Is(err, claims.ErrDiffers) {
		return decision, request, r.quota.Release(ctx, request) // its deletion triggers a reconcile
	}
	return decision, request, err
}

// provision makes the machine of an Instance as its claim allows.
//
// It makes no machine once the Instance is being deleted, and no machine larger than the claim. The cache may lag
// behind in both cases, so it reads live. The finalizer keeps the Instance and its claim for as long as there is a
// machine. Nobody can add it to an Instance during its deletion.
func (r *instances) provision(ctx context.Context, instance *computev1alpha1.Instance, machine *provider.Machine, request claims.Request) (*provider.Machine, error) {
	if machine == nil {
		live := &computev1alpha1.Instance{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(instance), live)
		if err != nil || live.UID != instance.UID || live.DeletionTimestamp != nil {
			return nil, client.IgnoreNotFound(err)
		}
		before := live.DeepCopy()
		if controllerutil.AddFinalizer(live, computev1alpha1.FinalizerMachine) {
			if err := r.cached.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				return nil, fmt.Errorf("keep Instance %s/%s while it has a machine: %w", instance.Namespace, instance.Name, err)
			}
		}
	}
	decision, err := r.quota.Read(ctx, request)
	if err != nil || !decision.IsGranted() {
		return machine, err // its change triggers a reconcile
	}
	provided, err := r.machines.Ensure(ctx, instance, within(instance.Spec.Resources, decision.Held()))
	if machine == nil && provided != nil {
		r.recorder.Eventf(instance, nil, corev1.EventTypeNormal, "Provisioned", "Provision", "Created a machine (%s)", r.machines.Name())
	}
	return provided, err
}

// end removes the finalizer of a deleted Instance once its machine is gone. The claim goes with the Instance.
func (r *instances) end(ctx context.Context, instance *computev1alpha1.Instance) error {
	if !controllerutil.ContainsFinalizer(instance, computev1alpha1.FinalizerMachine) {
		return nil // there never was a machine
	}
	isGone, err := r.machines.Delete(ctx, instance)
	if err != nil || !isGone {
		return err // its deletion triggers a reconcile
	}
	before := instance.DeepCopy()
	controllerutil.RemoveFinalizer(instance, computev1alpha1.FinalizerMachine)
	return client.IgnoreNotFound(r.cached.Patch(ctx, instance, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// describe writes the state of a machine into a status. The state of the quota is in it already. err is the error that
// keeps the machine from its desired state.
func (r *instances) describe(status *computev1alpha1.InstanceStatus, generation int64, machine *provider.Machine, err error) {
	status.ObservedGeneration = generation
	isGranted := apimeta.IsStatusConditionTrue(status.Conditions, claims.ConditionQuotaGranted)
	switch {
	case machine != nil:
		status.Provider, status.NetworkIP, status.ExternalIP, status.Resources = r.machines.Name(), machine.NetworkIP, machine.ExternalIP, &machine.Resources
		if err != nil {
			machine.Programmed = provider.State{Reason: reasonFailed, Message: err.Error()}
		}
	default:
		status.Provider, status.NetworkIP, status.ExternalIP, status.Resources = "", "", "", nil
		state := provider.State{Reason: reasonProvisioning, Message: "The machine is being made"}
		if err != nil {
			state = provider.State{Reason: reasonFailed, Message: err.Error()}
		}
		if isGranted || errors.Is(err, provider.ErrNameTaken) {
			machine = &provider.Machine{Programmed: state, Running: state, Ready: state}
		}
	}
	if machine != nil {
		set(&status.Conditions, computev1alpha1.ConditionProgrammed, generation, machine.Programmed)
		set(&status.Conditions, computev1alpha1.ConditionRunning, generation, machine.Running)
		set(&status.Conditions, computev1alpha1.ConditionReady, generation, machine.Ready)
	}
	decisive := claims.ConditionQuotaGranted
	if isGranted || machine != nil {
		decisive = computev1alpha1.ConditionReady
	}
	if condition := apimeta.FindStatusCondition(status.Conditions, decisive); condition != nil {
		status.Reason = condition.Reason
	}
}

func set(conditions *[]metav1.Condition, kind string, generation int64, state provider.State) {
	condition := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: state.Reason, Message: state.Message, ObservedGeneration: generation}
	if state.Is {
		condition.Status = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(conditions, condition)
}
