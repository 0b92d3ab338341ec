package quotaincrease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/kube/namespaces"
)

const (
	// heldBackRetry is the delay before the next attempt for a held back quota without a change of the cap.
	heldBackRetry = 60 * time.Second
	// heldBackRetryMin is the delay after the end of a cap. It doubles from then on.
	heldBackRetryMin = time.Second
	// heldBackRetryJitter is the largest random part of the delay.
	heldBackRetryJitter = 0.2
	// outdatedDelay gives the cache time to see a concurrent change.
	outdatedDelay = 50 * time.Millisecond
)

// Reconciler reconciles namespaces. Set all exported fields before use.
type Reconciler struct {
	// Client reads from a cache.
	Client client.Client
	// Live reads from the API server.
	Live        client.Reader
	Definitions *Definitions
	// SystemNamespace is Bursar's own. Like the namespaces of the control plane it gets no ResourceQuota.
	SystemNamespace string
	Events          *events.Recorder
	// WithoutCaps means that there are no allocations, not even their kinds.
	WithoutCaps bool

	outcomes       outcomes
	restoreLimiter restoreLimiter
	queue          atomic.Pointer[requests]
}

// Reconcile implements [reconcile.Reconciler]. The request names a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: outdatedDelay}, nil // the input of the decision is out of date
	}
	if err != nil {
		r.outcomes.failed(request.Name, err)
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := newNamespace()
	err := r.Client.Get(ctx, client.ObjectKey{Name: request.Name}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		r.outcomes.remove(request.Name)
		r.restoreLimiter.remove(request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read namespace %s: %w", request.Name, err)
	}
	increases, err := increasesIn(ctx, r.Client, namespace.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	chosen, holders, ignored, err := r.chooseFor(ctx, namespace)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case ignored != "":
		r.outcomes.set(namespace.Name, outcome{})
		return reconcile.Result{}, r.reportAll(ctx, increases, metav1.ConditionUnknown, openmcpv1alpha1.ReasonIgnored, ignored)
	case chosen.match != nil && chosen.match.validity.state == unvalidated:
		return reconcile.Result{}, nil // a reconcile of all namespaces follows the validation
	}
	now := outcome{}
	for _, other := range chosen.others {
		now.others = append(now.others, holder{other.config.Name, other.definition.Name})
	}
	if chosen.match == nil {
		r.outcomes.set(namespace.Name, now)
		return reconcile.Result{}, r.clear(ctx, namespace, holders, increases)
	}
	now.config, now.definition = chosen.match.config.Name, chosen.match.definition.Name
	if chosen.match.validity.state != valid {
		r.outcomes.set(namespace.Name, now)
		return reconcile.Result{}, r.leaveAsIs(ctx, chosen.match, increases)
	}
	return r.apply(ctx, namespace, chosen.match, increases, now)
}

// chooseFor chooses the definition for a namespace, if any, and returns its current holders. If the namespace must not
// change, it returns the reason.
func (r *Reconciler) chooseFor(ctx context.Context, namespace *metav1.PartialObjectMetadata) (chosen choice, holders []holder, ignored string, err error) {
	if by := ignoredBy(namespace); by != "" {
		return chosen, nil, fmt.Sprintf("namespace %s has the annotation %s=%s, so Bursar changes nothing in it; remove the annotation to make the increase count",
			namespace.Name, by, openmcpv1alpha1.OperationIgnore), nil
	}
	candidates, err := r.Definitions.candidates(ctx)
	if err != nil {
		return chosen, nil, "", err
	}
	quotas, err := r.quotasIn(ctx, namespace.Name)
	if err != nil {
		return chosen, nil, "", err
	}
	if isForeign(namespace, quotas, candidates) {
		return chosen, nil, fmt.Sprintf("namespace %s has the label %s=%s, which names no QuotaServiceConfig here: another operator manages it; remove the label to make the increase count",
			namespace.Name, openmcpv1alpha1.LabelManagedBy, namespace.Labels[openmcpv1alpha1.LabelManagedBy]), nil
	}
	holders = holdersOf(namespace, quotas)
	if !slices.Contains(namespaces.Exempt(r.SystemNamespace), namespace.Name) {
		chosen = choose(labels.Set(namespace.Labels), holders, candidates)
	}
	return chosen, holders, "", nil
}

// apply reconciles a namespace with a definition.
func (r *Reconciler) apply(ctx context.Context, namespace *metav1.PartialObjectMetadata, m *match, objects []openmcpv1alpha1.QuotaIncrease, now outcome) (reconcile.Result, error) {
	stored, err := r.storedQuota(ctx, namespace.Name, m.definition.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if stored != nil && !isGenerated(stored, namespace) {
		return reconcile.Result{}, r.leaveForeign(ctx, stored, m, objects, now)
	}

	// A namespace of a former configuration gets its label first: after a crash between the two writes it would otherwise
	// seem to be handed over.
	manager := namespace.Labels[openmcpv1alpha1.LabelManagedBy]
	isLabelledFirst := manager != "" && manager != m.config.Name
	if isLabelledFirst {
		if err := r.label(ctx, namespace, m); err != nil {
			return reconcile.Result{}, err
		}
	}

	f := &fit{Reconciler: r, namespace: namespace, match: m, stored: stored, input: inputOf(namespace, m, objects)}
	if err := f.run(ctx); err != nil {
		return r.reportUnwritten(ctx, f, objects, now, err)
	}
	if !isLabelledFirst {
		if err := r.label(ctx, namespace, m); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.removeOthers(ctx, namespace, m.definition.Name); err != nil {
		return reconcile.Result{}, err
	}

	result := reconcile.Result{}
	if now.isHeldBack = len(f.input.Held)+len(f.input.Fixed) > 0; now.isHeldBack {
		result.RequeueAfter = wait.Jitter(r.outcomes.nextRetry(namespace.Name), heldBackRetryJitter)
	}
	if message := f.baseMessage(); message != "" {
		now.reason, now.message = openmcpv1alpha1.ReasonBaseCapped, message
	}
	r.outcomes.set(namespace.Name, now)
	isCurrent, err := r.reconcileIncreases(ctx, f, objects)
	if !isCurrent {
		result.RequeueAfter = outdatedDelay
	}
	return result, err
}

// clear removes the quota of a former definition from a namespace.
func (r *Reconciler) clear(ctx context.Context, namespace *metav1.PartialObjectMetadata, holders []holder, objects []openmcpv1alpha1.QuotaIncrease) error {
	if isCurrent, err := r.isUnmatched(ctx, namespace, holders); !isCurrent || err != nil {
		return err // an event with the current state follows
	}
	if err := r.removeOthers(ctx, namespace, ""); err != nil {
		return err
	}
	if err := r.label(ctx, namespace, nil); err != nil {
		return err
	}
	message := fmt.Sprintf("no definition of a QuotaServiceConfig applies to namespace %s, so it has no quota to increase", namespace.Name)
	var errs []error
	for i := range objects {
		errs = append(errs, r.publish(ctx, &objects[i], increaseStatus{condition: condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonNoDefinition, message)}))
	}
	return errors.Join(errs...)
}

// isUnmatched reports whether the API server has no definition either for a namespace with a generated ResourceQuota.
// Without the ResourceQuota, the namespace has no limits.
func (r *Reconciler) isUnmatched(ctx context.Context, namespace *metav1.PartialObjectMetadata, holders []holder) (bool, error) {
	if len(holders) == 0 || slices.Contains(namespaces.Exempt(r.SystemNamespace), namespace.Name) {
		return true, nil
	}
	live := newNamespace()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(namespace), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	var configs openmcpv1alpha1.QuotaServiceConfigList
	if err := r.Live.List(ctx, &configs); err != nil {
		return false, fmt.Errorf("list QuotaServiceConfigs: %w", err)
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		validities, _ := r.Definitions.validities(config)
		if _, found := (candidate{config, validities}).match(labels.Set(live.Labels), holders); found && config.DeletionTimestamp == nil {
			return false, nil
		}
	}
	return maps.Equal(ownLabelsLeftOut(live), ownLabelsLeftOut(namespace)), nil
}

// ownLabelsLeftOut returns the labels of a namespace for the choice of a definition.
func ownLabelsLeftOut(namespace *metav1.PartialObjectMetadata) map[string]string {
	others := maps.Clone(namespace.Labels)
	for _, own := range []string{openmcpv1alpha1.LabelManagedBy, openmcpv1alpha1.LabelBase, openmcpv1alpha1.LabelMode} {
		delete(others, own)
	}
	return others
}

// storedQuota returns a ResourceQuota, or nil if there is none. The cache may lack a new one.
func (r *Reconciler) storedQuota(ctx context.Context, namespace, name string) (*corev1.ResourceQuota, error) {
	quota, key := &corev1.ResourceQuota{}, client.ObjectKey{Namespace: namespace, Name: name}
	err := r.Client.Get(ctx, key, quota)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, quota)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ResourceQuota %s: %w", key, err)
	}
	return quota, nil
}

// quotasIn returns the ResourceQuotas of a namespace.
func (r *Reconciler) quotasIn(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	var list corev1.ResourceQuotaList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list ResourceQuotas in namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// removeOthers deletes the generated ResourceQuotas of a namespace except for the one with the name.
func (r *Reconciler) removeOthers(ctx context.Context, namespace *metav1.PartialObjectMetadata, name string) error {
	quotas, err := r.quotasIn(ctx, namespace.Name)
	if err != nil {
		return err
	}
	for i := range quotas {
		quota := &quotas[i]
		if quota.Name == name || quota.DeletionTimestamp != nil || !isOurs(quota, namespace) {
			continue
		}
		err := r.Client.Delete(ctx, quota, client.Preconditions{UID: &quota.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err)
		}
		why := "no definition of a QuotaServiceConfig applies to the namespace now"
		if name != "" {
			why = "ResourceQuota " + name + " takes its place"
		}
		r.Events.Eventf(referenceToNamespace(namespace), referenceToQuota(quota), corev1.EventTypeNormal, openmcpv1alpha1.EventQuotaRemoved, actionDelete,
			"ResourceQuota %s was removed: %s", quota.Name, why)
	}
	return nil
}

// label sets the labels of a namespace to its definition, or removes them. It fails with a conflict if the namespace
// has changed: another operator may manage it now.
func (r *Reconciler) label(ctx context.Context, namespace *metav1.PartialObjectMetadata, m *match) error {
	labels := map[string]string{openmcpv1alpha1.LabelManagedBy: "", openmcpv1alpha1.LabelBase: "", openmcpv1alpha1.LabelMode: ""}
	if m != nil {
		labels[openmcpv1alpha1.LabelManagedBy] = m.config.Name
		labels[openmcpv1alpha1.LabelBase] = m.definition.Name
		labels[openmcpv1alpha1.LabelMode] = string(m.definition.Mode)
	}
	updated := namespace.DeepCopy()
	if !changeLabels(updated, labels) {
		return nil
	}
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(namespace, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label namespace %s: %w", namespace.Name, err)
	}
	return nil
}

// changeLabels sets labels, and removes the empty ones. It reports whether anything changed.
func changeLabels(object client.Object, desired map[string]string) bool {
	values, isChanged := object.GetLabels(), false
	if values == nil {
		values = map[string]string{}
	}
	for key, value := range desired {
		before, was := values[key]
		if isChanged = isChanged || before != value || was != (value != ""); value == "" {
			delete(values, key)
		} else {
			values[key] = value
		}
	}
	object.SetLabels(values)
	return isChanged
}

// inputOf returns the input of a namespace's quota.
func inputOf(namespace *metav1.PartialObjectMetadata, m *match, objects []openmcpv1alpha1.QuotaIncrease) increase.Input {
	input := increase.Input{Mode: m.definition.Mode, Base: m.definition.Template.Spec.Hard, Use: namespace.Labels[openmcpv1alpha1.LabelUse]}
	for i := range objects {
		if _, _, isNegative := increase.Negative(objects[i].Spec.Hard); !isNegative {
			input.Increases = append(input.Increases, increase.Increase{
				Name: objects[i].Name, Created: objects[i].CreationTimestamp.Time, Hard: objects[i].Spec.Hard,
			})
		}
	}
	input.Names = increase.NamesOf(input.Base, input.Increases)
	for i := range input.Increases {
		input.Increases[i].Hard = input.Names.Of(input.Increases[i].Hard)
	}
	return input
}

// increasesIn returns the increases of a namespace except those in deletion.
func increasesIn(ctx context.Context, from client.Reader, namespace string) ([]openmcpv1alpha1.QuotaIncrease, error) {
	var list openmcpv1alpha1.QuotaIncreaseList
	if err := from.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list QuotaIncreases in namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(i openmcpv1alpha1.QuotaIncrease) bool { return i.DeletionTimestamp != nil }), nil
}

// ignoredBy returns the annotation to exclude a namespace, or nothing.
func ignoredBy(namespace *metav1.PartialObjectMetadata) string {
	for _, key := range []string{openmcpv1alpha1.AnnotationQuotaOperation, openmcpv1alpha1.AnnotationOperation} {
		if namespace.Annotations[key] == openmcpv1alpha1.OperationIgnore {
			return key
		}
	}
	return ""
}

func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// ignoreNamespaceGone drops errors about a missing namespace or one in deletion.
func ignoreNamespaceGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
