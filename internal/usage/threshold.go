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

// Thresholds are the percentages at which consumers count as near a limit: the lowest of the consumer's active grants
// of the resource type, otherwise the registration's, otherwise the platform's.
type Thresholds struct {
	granted       map[pair]int
	registrations *catalog.Catalog
	platform      int
}

// NewThresholds takes the grants of all consumers, and the platform's percentage. It ignores invalid thresholds.
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

// Percent returns the threshold of a consumer and a resource type.
func (t *Thresholds) Percent(consumer quotav1alpha1.ConsumerRef, resourceType string) int {
	if percent, found := t.granted[pair{consumer, resourceType}]; found {
		return percent
	}
	if r := t.registrations.Registration(resourceType); r != nil && r.AlertThresholdPercent > 0 {
		return r.AlertThresholdPercent
	}
	return t.platform
}
