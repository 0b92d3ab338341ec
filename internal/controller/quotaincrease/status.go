package quotaincrease

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
)

const (
	// statusDelay gathers the outcomes of many namespaces into one write.
	statusDelay = 200 * time.Millisecond
	// configsAtOnce is the number of configurations in concurrent validation and description.
	configsAtOnce = 4
	// namedMax is the largest number of namespaces in a message.
	namedMax = 3
)

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// statusReconciler validates the definitions of a QuotaServiceConfig, and writes their outcomes into its status.
type statusReconciler struct {
	Client      client.Client
	Definitions *Definitions
	outcomes    *outcomes
	queue       atomic.Pointer[requests]
}

func (s *statusReconciler) setupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("quotaserviceconfig").
		Watches(&openmcpv1alpha1.QuotaServiceConfig{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(updates(differsBesidesStatus))).
		WatchesRawSource(source.Func(func(_ context.Context, queue requests) error {
			s.queue.Store(&queue)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: configsAtOnce}).
		Complete(s)
}

// enqueue queues a configuration soon. Without a queue it does nothing, because the start queues all configurations.
func (s *statusReconciler) enqueue(config string) {
	if queue := s.queue.Load(); queue != nil {
		(*queue).AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: config}}, statusDelay)
	}
}

// Reconcile implements [reconcile.Reconciler].
func (s *statusReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	config := &openmcpv1alpha1.QuotaServiceConfig{}
	if err := s.Client.Get(ctx, request.NamespacedName, config); err != nil {
		if apierrors.IsNotFound(err) {
			s.Definitions.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	validities, again := s.Definitions.validate(ctx, config)
	all := s.outcomes.all()
	namespaces, err := namespacesFrom(ctx, s.Client)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces {
		if _, known := all[namespaces[i].Name]; !known && namespaces[i].DeletionTimestamp == nil {
			return reconcile.Result{RequeueAfter: statusDelay}, nil // an unknown namespace might conflict
		}
	}
	updated := config.DeepCopy()
	describe(updated, validities, all)
	if equality.Semantic.DeepEqual(config.Status, updated.Status) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	err = s.Client.Status().Update(ctx, updated)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: statusDelay}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("update the status of QuotaServiceConfig %s: %w", config.Name, err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// describe fills in the status of a configuration.
func describe(config *openmcpv1alpha1.QuotaServiceConfig, validities []validity, all map[string]outcome) {
	before := map[string][]metav1.Condition{}
	for _, each := range config.Status.Quotas {
		before[each.Name] = each.Conditions
	}
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: openmcpv1alpha1.ReasonInForce, Message: "every definition is effective"}
	var problems []string
	config.Status.Quotas = nil
	for i := range config.Spec.Quotas {
		name := config.Spec.Quotas[i].Name
		count, c := describeDefinition(config.Name, name, validities[i], all)
		if c.Status != metav1.ConditionTrue {
			if ready.Status != metav1.ConditionFalse { // a known error goes before an unknown state
				ready.Status, ready.Reason = c.Status, c.Reason
			}
			problems = append(problems, fmt.Sprintf("definition %s: %s", name, c.Message))
		}
		status := openmcpv1alpha1.QuotaDefinitionStatus{Name: name, Namespaces: count, Conditions: slices.Clone(before[name])}
		setCondition(&status.Conditions, openmcpv1alpha1.ConditionReady, config.Generation, c)
		config.Status.Quotas = append(config.Status.Quotas, status)
	}
	if len(problems) > 0 {
		ready.Message = strings.Join(problems, "; ")
	}
	setCondition(&config.Status.Conditions, openmcpv1alpha1.ConditionReady, config.Generation, ready)
	conflict := conflictOf(config.Name, all)
	setCondition(&config.Status.Conditions, openmcpv1alpha1.ConditionConflict, config.Generation, conflict)
	setProgress(config, validities, ready, conflict)
	config.Status.ObservedGeneration = config.Generation
}

// setProgress sets how far a configuration is from its effect.
func setProgress(config *openmcpv1alpha1.QuotaServiceConfig, validities []validity, ready, conflict metav1.Condition) {
	state, cause := progress.Reached, ready
	switch {
	case slices.ContainsFunc(validities, func(v validity) bool { return v.state == invalid }):
		state = progress.Stalled
	case ready.Status != metav1.ConditionTrue:
		state = progress.Waiting
	case conflict.Status == metav1.ConditionTrue:
		state, cause = progress.Waiting, conflict
	}
	cause.ObservedGeneration, cause.Message = config.Generation, cut(cause.Message)
	progress.Set(&config.Status.Conditions, state, cause)
}

func setCondition(conditions *[]metav1.Condition, of string, generation int64, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.Message = of, generation, cut(c.Message)
	apimeta.SetStatusCondition(conditions, c)
}

// precedence orders the reasons; the status has the first applicable one.
var precedence = []string{openmcpv1alpha1.ReasonQuotaExists, openmcpv1alpha1.ReasonWriteFailed, openmcpv1alpha1.ReasonBaseCapped}

// describeDefinition counts the namespaces of a definition, and returns whether it is effective in all.
func describeDefinition(config, definition string, result validity, all map[string]outcome) (count int32, c metav1.Condition) {
	messages := map[string][]string{} // by reason
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		if o := all[namespace]; o.config == config && o.definition == definition {
			if o.reason == "" || o.reason == openmcpv1alpha1.ReasonBaseCapped {
				count++
			}
			if o.reason != "" {
				messages[o.reason] = append(messages[o.reason], o.message)
			}
		}
	}
	switch result.state {
	case undetermined:
		return count, metav1.Condition{Status: metav1.ConditionUnknown, Reason: openmcpv1alpha1.ReasonNotChecked,
			Message: "its namespaces stay unchanged until Bursar knows whether it is valid: " + result.message}
	case invalid:
		return count, metav1.Condition{Status: metav1.ConditionFalse, Reason: openmcpv1alpha1.ReasonValidationFailed,
			Message: result.message + "; until somebody corrects this, it applies to no further namespace, and its present namespaces keep their quota"}
	}
	for _, reason := range precedence {
		if sentences := messages[reason]; len(sentences) > 0 {
			return count, metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: joinFirst(sentences, "; ")}
		}
	}
	c = metav1.Condition{Status: metav1.ConditionTrue, Reason: openmcpv1alpha1.ReasonInForce, Message: "it is effective in all its namespaces"}
	if count == 0 {
		c.Message = "it applies to no namespace: its selector matches none, or earlier definitions and other QuotaServiceConfigs have them all"
	}
	return count, c
}

// conflictOf returns the condition on namespaces of this configuration held by others.
func conflictOf(config string, all map[string]outcome) metav1.Condition {
	held := map[string][]string{} // by the configuration holding them
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		o := all[namespace]
		if slices.ContainsFunc(o.others, func(h holder) bool { return h.config == config }) {
			held[o.config] = append(held[o.config], namespace)
		}
	}
	if len(held) == 0 {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: openmcpv1alpha1.ReasonNoConflict, Message: "no other QuotaServiceConfig has a namespace of these definitions"}
	}
	var sentences []string
	for _, by := range slices.SortedFunc(maps.Keys(held), cmp.Compare[string]) {
		sentences = append(sentences, fmt.Sprintf("QuotaServiceConfig %s holds %s", by, joinFirst(held[by], ", ")))
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: openmcpv1alpha1.ReasonNamespacesHeld,
		Message: strings.Join(sentences, "; ") + "; definitions here select them too, and change nothing there: make the selectors select different namespaces, or delete one of the two"}
}

// joinFirst joins the first texts and counts the rest.
func joinFirst(texts []string, separator string) string {
	if more := len(texts) - namedMax; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:namedMax], separator), more)
	}
	return strings.Join(texts, separator)
}
