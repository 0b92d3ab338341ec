package usage

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// pair is a consumer and a resource type.
type pair struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
}

// Thresholds tell from which part of its limit on a consumer is near it: what its active grants of the resource type say,
// the lowest of them, else what the registration says, else what the platform does.
type Thresholds struct {
	granted       map[pair]int
	registrations *catalog.Catalog
	platform      int
}

// NewThresholds takes the grants of all consumers, and what the platform says, in percent. What cannot be read counts for
// nothing.
func NewThresholds(grants []quotav1alpha1.ResourceGrant, registrations *catalog.Catalog, platform int) *Thresholds {
	t := &Thresholds{granted: map[pair]int{}, registrations: registrations, platform: platform}
	for i := range grants {
		grant := &grants[i]
		percent, err := quotav1alpha1.ParseAlertThreshold(grant.Annotations[quotav1alpha1.AnnotationAlertThreshold])
		if err != nil || !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			continue
		}
		for _, allowance := range grant.Spec.Allowances {
			of := pair{grant.Spec.ConsumerRef, allowance.ResourceType}
			if lowest, found := t.granted[of]; !found || percent < lowest {
				t.granted[of] = percent
			}
		}
	}
	return t
}

// Percent is the threshold of a consumer and a resource type.
func (t *Thresholds) Percent(consumer quotav1alpha1.ConsumerRef, resourceType string) int {
	if percent, found := t.granted[pair{consumer, resourceType}]; found {
		return percent
	}
	if r := t.registrations.Registration(resourceType); r != nil && r.AlertThresholdPercent > 0 {
		return r.AlertThresholdPercent
	}
	return t.platform
}
