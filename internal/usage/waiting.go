package usage

import (
	"math"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// countShort counts waiting claims by consumer and by the resource types with too little left.
func countShort(waiting map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest, all []Usage) map[quotav1alpha1.ConsumerRef]map[string]int {
	available := make(map[pair]int64, len(all))
	for _, u := range all {
		available[pair{u.Consumer, u.ResourceType}] = u.Limit - u.Used
		if u.IsFeature {
			available[pair{u.Consumer, u.ResourceType}] = math.MaxInt64
		}
	}
	counts := map[quotav1alpha1.ConsumerRef]map[string]int{}
	for consumer, claims := range waiting {
		counts[consumer] = map[string]int{}
		for _, requests := range claims {
			for _, resourceType := range shortOf(consumer, requests, available) {
				counts[consumer][resourceType]++
			}
		}
	}
	return counts
}

// shortOf returns the resource types with less left than a claim requests. If there is enough of each, the claim waits
// for its dimensions or for an earlier claim, so it returns all of them.
func shortOf(consumer quotav1alpha1.ConsumerRef, requests []quotav1alpha1.ResourceRequest, available map[pair]int64) (short []string) {
	for _, request := range requests {
		if request.Amount > available[pair{consumer, request.ResourceType}] {
			short = append(short, request.ResourceType)
		}
	}
	if len(short) == 0 {
		for _, request := range requests {
			short = append(short, request.ResourceType)
		}
	}
	return short
}
