package quotarequest

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// IsAbout reports whether a policy applies to a request: to one of its resource types.
func IsAbout(policy *quotav1alpha1.QuotaRequestPolicy, request *quotav1alpha1.QuotaRequest) bool {
	types := policy.Spec.ResourceTypes
	return len(types) == 0 || slices.ContainsFunc(request.Spec.Requests, func(asked quotav1alpha1.RequestedQuota) bool {
		return slices.Contains(types, asked.ResourceType)
	})
}

// DurationMax returns how long the quota of a request lasts at most after its approval, or 0.
func DurationMax(policies []quotav1alpha1.QuotaRequestPolicy, request *quotav1alpha1.QuotaRequest) time.Duration {
	var shortest time.Duration
	for i := range policies {
		if IsAbout(&policies[i], request) {
			shortest = Shorter(shortest, policies[i].Spec.MaxDuration)
		}
	}
	return shortest
}

// Shorter returns the shorter of two durations. 0 and nil are none.
func Shorter(d time.Duration, other *metav1.Duration) time.Duration {
	if other == nil || d > 0 && d <= other.Duration {
		return d
	}
	return other.Duration
}
