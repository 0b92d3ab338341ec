// Package usage reports the utilization of consumers: in metrics, in events, and to users. The operator and the
// commands import it.
package usage

import (
	"cmp"
	"math"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// Usage is a consumer's usage of a resource type over all dimensions, in base units.
type Usage struct {
	Consumer     quotav1alpha1.ConsumerRef
	ResourceType string
	// Used is the allocated amount, and Limit the granted one. Held is what overdue requests hold.
	Used, Limit, Held int64
	// IsFeature is set if the resource type is only counted: the use is no part of the limit.
	IsFeature bool
}

// Ratio returns the used part of the limit. It is 1 at the limit, more beyond it, and infinite for usage without a
// limit. It is 0 for a feature.
func (u Usage) Ratio() float64 {
	switch {
	case u.IsFeature:
		return 0
	case u.Limit > 0:
		return float64(u.Used) / float64(u.Limit)
	case u.Used > 0:
		return math.Inf(1)
	default:
		return 0
	}
}

// OverLimit returns the usage beyond the limit, or 0.
func (u Usage) OverLimit() int64 {
	if u.IsFeature {
		return 0
	}
	return max(0, u.Used-u.Limit)
}

// compare sorts by utilization, the highest first.
func compare(a, b Usage) int {
	return cmp.Or(cmp.Compare(b.Ratio(), a.Ratio()), naming.CompareConsumers(a.Consumer, b.Consumer), cmp.Compare(a.ResourceType, b.ResourceType))
}

// usagesOf returns the usages in buckets, the highest utilization first. It leaves out the buckets of dimensions, as
// they are parts of others. During a move to another namespace a bucket may exist twice, and counts once.
func usagesOf(buckets []quotav1alpha1.AllowanceBucket) []Usage {
	seen := make(map[pair]bool, len(buckets))
	all := make([]Usage, 0, len(buckets))
	for i := range buckets {
		spec := &buckets[i].Spec
		if of := (pair{spec.ConsumerRef, spec.ResourceType}); len(spec.Dimensions) == 0 && !seen[of] {
			seen[of] = true
			all = append(all, usageOf(&buckets[i]))
		}
	}
	slices.SortFunc(all, compare)
	return all
}

// usageOf returns the usage in a bucket.
func usageOf(bucket *quotav1alpha1.AllowanceBucket) Usage {
	return Usage{
		Consumer: bucket.Spec.ConsumerRef, ResourceType: bucket.Spec.ResourceType, Used: bucket.Status.Allocated, Limit: bucket.Status.Limit, Held: bucket.Status.Held,
		IsFeature: bucket.Status.Feature != "",
	}
}
