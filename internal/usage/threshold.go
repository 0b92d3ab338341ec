package usage

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/config"
)

// pair is a consumer and a resource type.
type pair struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
}

// Thresholds are the percentages at which consumers count as near a limit. The lowest of the consumer's QuotaAlerts
// counts first, otherwise the lowest of its active grants of the resource type, then the registration's, then the
// platform's.
type Thresholds struct {
	alerted, granted lowest
	registrations    *catalog.Catalog
	platform         int
}

// lowest has the lowest percentage of each pair.
type lowest map[pair]int

func (l lowest) add(of pair, percent int) {
	if before, found := l[of]; !found || percent < before {
		l[of] = percent
	}
}

// NewThresholds takes the alerts and the grants of all consumers, and the platform's settings. It ignores invalid
// thresholds of grants, and alerts outside of the namespace of their consumer.
func NewThresholds(alerts []quotav1alpha1.QuotaAlert, grants []quotav1alpha1.ResourceGrant, registrations *catalog.Catalog, settings config.Metrics) *Thresholds {
	t := &Thresholds{alerted: lowest{}, granted: lowest{}, registrations: registrations, platform: settings.AlertThresholdPercent}
	for i := range alerts {
		alert := &alerts[i]
		if alert.Namespace != registrations.ConsumerNamespace(alert.Spec.ConsumerRef) {
			continue
		}
		for _, threshold := range alert.Spec.Thresholds {
			t.alerted.add(pair{alert.Spec.ConsumerRef, threshold.ResourceType}, settings.ConsumerThresholds.Clamp(int(threshold.Percent)))
		}
	}
	for i := range grants {
		grant := &grants[i]
		percent, err := quotav1alpha1.ParseAlertThreshold(grant.Annotations[quotav1alpha1.AnnotationAlertThreshold])
		if err != nil || !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			continue
		}
		for _, allowance := range grant.Spec.Allowances {
			t.granted.add(pair{grant.Spec.ConsumerRef, allowance.ResourceType}, percent)
		}
	}
	return t
}

// Percent returns the threshold of a consumer and a resource type.
func (t *Thresholds) Percent(consumer quotav1alpha1.ConsumerRef, resourceType string) int {
	of := pair{consumer, resourceType}
	if percent, found := t.alerted[of]; found {
		return percent
	}
	if percent, found := t.granted[of]; found {
		return percent
	}
	if r := t.registrations.Registration(resourceType); r != nil && r.AlertThresholdPercent > 0 {
		return r.AlertThresholdPercent
	}
	return t.platform
}
