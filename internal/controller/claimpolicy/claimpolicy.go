// Package claimpolicy reports whether ClaimCreationPolicies are effective, and why not. Only the operator and tests
// import it.
package claimpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/permission"
	"github.com/bursar/bursar/internal/kube/progress"
)

// Permission returns the reason for not following the objects of a resource, or "". An error means that the answer is
// unknown.
type Permission interface {
	Follow(ctx context.Context, resource schema.GroupVersionResource) (problem string, err error)
}

// Listener hears of changes.
type Listener interface {
	// The reconciler calls PoliciesChanged after a change of permissions suspends a policy or makes it effective again,
	// and after it has accepted the new kind of a policy.
	PoliciesChanged()
}

// Webhooks reports the requests the API server sends to the webhooks.
type Webhooks interface {
	// IsEffective reports whether the API server sends the requests for a policy, and only to replicas with the policy.
	// entered is the revision of the catalog with the entry of the policy.
	IsEffective(kind schema.GroupVersionKind, entered int64) bool
}

// Reconciler reports whether policies are effective.
type Reconciler struct {
	Client  client.Client
	Catalog *catalog.Catalog
	Kinds   discoverycache.Resolver
	// Permission is Bursar's own.
	Permission Permission
	Listener   Listener
	Webhooks   Webhooks
	// Changed delivers an event after each change with an effect on policies.
	Changed <-chan event.TypedGenericEvent[client.Object]
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("claimpolicy").
		For(&quotav1alpha1.ClaimCreationPolicy{}).
		WatchesRawSource(source.Channel(r.Changed, handler.EnqueueRequestsFromMapFunc(r.all))).
		Complete(r)
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list quotav1alpha1.ClaimCreationPolicyList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // for the names only
		ctrl.LoggerFrom(ctx).Error(err, "list policies")
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
	object := &quotav1alpha1.ClaimCreationPolicy{}
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}

	condition, err := r.readyCondition(ctx, object)
	if err != nil {
		return reconcile.Result{}, err
	}
	if condition == nil {
		return reconcile.Result{}, nil // an event follows once decisions and webhooks agree
	}

	updated := object.DeepCopy()
	result := reconcile.Result{RequeueAfter: r.setConditions(updated, condition)}
	updated.Status.ObservedGeneration = object.Generation
	if updated.Status.Effective, err = r.effective(object, condition.Status == metav1.ConditionTrue); err != nil {
		return reconcile.Result{}, err
	}
	adoption.SetAdopted(updated)

	if equality.Semantic.DeepEqual(object.Status, updated.Status) {
		return result, nil
	}
	// A conflict means that the result is out of date. An event follows its newer version.
	if err := r.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("update the status of ClaimCreationPolicy %s: %w", object.Name, err)
	}
	return result, nil
}

// setConditions sets the conditions of a policy, with ready as its condition Ready. It returns the time until the
// reconciler must look again although no event tells it to, or 0.
func (r *Reconciler) setConditions(object *quotav1alpha1.ClaimCreationPolicy, ready *metav1.Condition) (lookAgain time.Duration) {
	conditions := &object.Status.Conditions
	ready.Type, ready.ObservedGeneration = quotav1alpha1.ConditionReady, object.Generation
	apimeta.SetStatusCondition(conditions, *ready)
	if ready.Reason == quotav1alpha1.ReasonValidationFailed {
		lookAgain = permission.RecheckInterval // no event reports new permissions
	}

	if ready.Status == metav1.ConditionTrue {
		var isApplicable *metav1.Condition
		isApplicable, lookAgain = applicable(object, r.Catalog.CheckClaiming(object), time.Now())
		isApplicable.Type, isApplicable.ObservedGeneration = quotav1alpha1.ConditionApplicable, object.Generation
		apimeta.SetStatusCondition(conditions, *isApplicable)
	} else {
		apimeta.RemoveStatusCondition(conditions, quotav1alpha1.ConditionApplicable)
	}

	state, cause := r.progressOf(object)
	progress.Set(conditions, state, cause)
	return lookAgain
}

// progressOf returns how far a policy is from its effect, by its conditions, and the one that explains it. A disabled
// policy has the effect that its author asked for. A failure for single objects counts as the fault of these: otherwise
// the owner of one object could hold up a delivery of the platform.
func (r *Reconciler) progressOf(object *quotav1alpha1.ClaimCreationPolicy) (progress.State, metav1.Condition) {
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	if ready != nil && ready.Reason == quotav1alpha1.ReasonValidationFailed {
		if len(r.Catalog.CompileErrors(object)) > 0 {
			return progress.Stalled, *ready
		}
		return progress.Waiting, *ready
	}
	applicable := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionApplicable)
	if applicable != nil && applicable.Reason == quotav1alpha1.ReasonClaimNotAllowed {
		return progress.Waiting, *applicable
	}
	return progress.Reached, metav1.Condition{}
}

// readyCondition returns the condition Ready of a policy, or nil while its result is not effective yet.
func (r *Reconciler) readyCondition(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy) (*metav1.Condition, error) {
	if !object.IsEnabled() {
		if current, _ := r.Catalog.Current(object.Name); current != nil {
			return nil, nil
		}
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonPolicyDisabled,
			Message: "the policy is disabled by spec.enabled; nothing is enforced"}, nil
	}
	trigger := catalog.TriggerOf(object)
	problems, err := r.problems(ctx, object, trigger)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonValidationFailed,
			Message: strings.Join(problems, "; ") + r.decidesMessage(object)}, nil
	}
	if r.Catalog.AcceptKind(object.Name, object.Generation) {
		r.Listener.PoliciesChanged()
	}
	p := r.Catalog.Policy(object.Name)
	if p == nil || p.UID != object.UID || p.Generation != object.Generation || !r.Webhooks.IsEffective(trigger, p.Revision) {
		return nil, nil
	}
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonPolicyReady, Message: readyMessage(p)}, nil
}

// effective returns the effective generation, for the status, so that it survives every process that knows it. The
// first one is stored once it is Ready: until then nobody relies on the policy. Afterwards it is the one that decides
// requests.
func (r *Reconciler) effective(object *quotav1alpha1.ClaimCreationPolicy, isReady bool) (*quotav1alpha1.EffectivePolicy, error) {
	if !object.IsEnabled() {
		return nil, nil
	}
	effective := object.Status.Effective.DeepCopy()
	current, isSuspended := r.Catalog.Current(object.Name)

	var err error
	switch {
	case isReady && (effective == nil || effective.Generation != object.Generation):
		effective, err = effectivePolicy(object.Generation, &object.Spec)
	case effective != nil && current != nil && current.UID == object.UID && current.Generation > effective.Generation:
		effective, err = effectivePolicy(current.Generation, current.Spec)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the spec of ClaimCreationPolicy %s: %w", object.Name, err)
	}

	if effective != nil && current != nil && current.Generation == effective.Generation {
		effective.Suspended = isSuspended
	}
	return effective, nil
}

func effectivePolicy(generation int64, spec *quotav1alpha1.ClaimCreationPolicySpec) (*quotav1alpha1.EffectivePolicy, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return &quotav1alpha1.EffectivePolicy{Generation: generation, Spec: runtime.RawExtension{Raw: raw}}, nil
}

// decidesMessage says, after the problems of the latest generation, which generation decides requests all the same.
func (r *Reconciler) decidesMessage(object *quotav1alpha1.ClaimCreationPolicy) string {
	p := r.Catalog.Policy(object.Name)
	switch {
	case p == nil || p.UID != object.UID:
		return ""
	case p.Generation == object.Generation: // such as while a registration is being deleted
		return "; the policy decides requests all the same"
	default:
		return fmt.Sprintf("; until that is corrected, Bursar goes on with generation %d of the policy, in status.effective", p.Generation)
	}
}

// readyMessage returns a sentence on the effect of a policy.
func readyMessage(p *catalog.Policy) string {
	what := "creates"
	if p.FollowsUpdates() {
		what = "creates and updates"
	}
	message := fmt.Sprintf("%s of %s are checked", what, p.Trigger.GroupKind())
	switch p.Mode {
	case quotav1alpha1.EnforcementModeWarn:
		return message + "; those beyond a quota pass with a warning"
	case quotav1alpha1.EnforcementModeAudit:
		return message + "; those beyond a quota pass, and Bursar records an event of this policy"
	default:
		return message
	}
}

// suspendUnpermitted suspends the generation that decides requests while Bursar may not follow the objects of its kind:
// a create would reserve quota, and no watch would show the object.
func (r *Reconciler) suspendUnpermitted(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy) error {
	current, _ := r.Catalog.Current(object.Name)
	if current == nil || current.UID != object.UID {
		return nil
	}
	resource, isServed, err := r.Kinds.VersionedResourceFor(ctx, current.Trigger)
	if err != nil || !isServed {
		return err
	}
	problem, err := r.Permission.Follow(ctx, resource)
	if err != nil {
		return err
	}
	if r.Catalog.SetSuspended(object.Name, current.Generation, problem != "") {
		r.Listener.PoliciesChanged()
	}
	return nil
}

// problems returns all reasons why a policy is not effective.
func (r *Reconciler) problems(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, trigger schema.GroupVersionKind) ([]string, error) {
	var problems []string
	if errs := r.Catalog.CompileErrors(object); len(errs) > 0 {
		problems = append(problems, errs.ToAggregate().Error())
	}
	resource, served, err := r.Kinds.VersionedResourceFor(ctx, trigger)
	if err != nil {
		return nil, err
	}
	if !served {
		problems = append(problems, fmt.Sprintf("kind %s in version %s is not served by this API server", trigger.GroupKind(), trigger.GroupVersion()))
	} else if problem, err := r.Permission.Follow(ctx, resource); err != nil {
		return nil, err
	} else if problem != "" {
		problems = append(problems, problem)
	}
	if err := r.suspendUnpermitted(ctx, object); err != nil {
		return nil, err
	}
	if err := r.Catalog.CheckPolicy(object); err != nil {
		problems = append(problems, err.Error())
	}
	if err := r.Catalog.CheckChangedKind(object); err != nil {
		problems = append(problems, err.Error())
	}
	return problems, nil
}
