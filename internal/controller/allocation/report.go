package allocation

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
)

// reportUsage emits an event when an allocation exceeds its cap, exceeds a changed cap, or is within it again, and
// updates the usage metrics.
func (c *Controller) reportUsage(object *quotav1alpha1.ResourceQuotaAllocation) {
	k := c.stateOf(object.Name)
	c.metrics.observe(object, k)
	exceeded := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionExceeded)
	if exceeded == nil {
		return
	}
	isExceeded := exceeded.Status == metav1.ConditionTrue
	before := k.isExceeded
	isOfChangedCap := isExceeded && k.reportedGeneration != exceeded.ObservedGeneration
	k.isExceeded, k.reportedGeneration = &isExceeded, exceeded.ObservedGeneration
	if c.Events == nil || before != nil && *before == isExceeded && !isOfChangedCap || before == nil && !isExceeded {
		return
	}

	if isExceeded {
		c.Events.Eventf(reference(object), nil, corev1.EventTypeWarning, quotav1alpha1.EventCapExceeded, "Settle", "%s", exceeded.Message)
	} else {
		c.Events.Eventf(reference(object), nil, corev1.EventTypeNormal, quotav1alpha1.EventWithinCap, "Settle", "%s", exceeded.Message)
	}
}

func reference(object *quotav1alpha1.ResourceQuotaAllocation) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceQuotaAllocation", Name: object.Name, UID: object.UID,
		// A repeated event keeps its first note. The version makes a later message another event.
		ResourceVersion: object.ResourceVersion,
	}
}

// reportInvalid writes into the status why an allocation is invalid.
func (c *Controller) reportInvalid(ctx context.Context, object *quotav1alpha1.ResourceQuotaAllocation) error {
	_, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector)
	if err == nil {
		return nil // an event follows its newer version
	}
	updated := object.DeepCopy()
	invalid := metav1.Condition{
		Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonValidationFailed,
		ObservedGeneration: object.Generation, Message: fmt.Sprintf("spec.selector: %v; nothing is capped", err),
	}
	apimeta.SetStatusCondition(&updated.Status.Conditions, invalid)
	progress.Set(&updated.Status.Conditions, progress.Stalled, invalid)
	updated.Status.ObservedGeneration = object.Generation
	if equality.Semantic.DeepEqual(object.Status, updated.Status) {
		return nil
	}
	if err := c.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of ResourceQuotaAllocation %s: %w", object.Name, err)
	}
	return nil
}

// metrics are the usage of each cap.
type metrics struct{ hard, used, unlimited *prometheus.GaugeVec }

func newMetrics() *metrics {
	ofResource := []string{"allocation", "resource"}
	return &metrics{
		hard: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bursar_allocation_hard",
			Help: "Cap of a ResourceQuotaAllocation on a resource, in the resource's base unit.",
		}, ofResource),
		used: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bursar_allocation_used",
			Help: "Amount of a resource that the counted ResourceQuotas of a ResourceQuotaAllocation give together, " +
				"in the resource's base unit. It is over its cap if this is more than bursar_allocation_hard.",
		}, ofResource),
		unlimited: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bursar_allocation_unlimited_namespaces",
			Help: "Namespaces under a ResourceQuotaAllocation without a ResourceQuota for a capped resource.",
		}, []string{"allocation"}),
	}
}

// Collectors returns the controller's metrics, for registration.
func (c *Controller) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.metrics.hard, c.metrics.used, c.metrics.unlimited}
}

func (m *metrics) observe(object *quotav1alpha1.ResourceQuotaAllocation, k *allocationState) {
	allocated := object.Status.Allocated
	var capped []string
	for name, hard := range allocated.Hard {
		used := allocated.Used[name]
		m.hard.WithLabelValues(object.Name, string(name)).Set(hard.AsApproximateFloat64())
		m.used.WithLabelValues(object.Name, string(name)).Set(used.AsApproximateFloat64())
		capped = append(capped, string(name))
	}
	m.forget(object.Name, slices.DeleteFunc(k.capped, func(name string) bool { return slices.Contains(capped, name) }))
	k.capped = capped
}

func (m *metrics) forget(allocation string, resources []string) {
	for _, name := range resources {
		m.hard.DeleteLabelValues(allocation, name)
		m.used.DeleteLabelValues(allocation, name)
	}
}
