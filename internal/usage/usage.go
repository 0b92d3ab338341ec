// Package usage says how much of their quota consumers use: in metrics, and to people.
package usage

import (
	"cmp"
	"math"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Usage is how much of a resource type a consumer uses, whatever the dimensions, in base units.
type Usage struct {
	Consumer     quotav1alpha1.ConsumerRef
	ResourceType string
	// Used is what is allocated, and Limit what is granted.
	Used, Limit int64
}

// Ratio is which part of the limit is used. It is 1 where all of it is, more where more is used than is granted, and
// infinite where something is used and nothing is granted.
func (u Usage) Ratio() float64 {
	switch {
	case u.Limit > 0:
		return float64(u.Used) / float64(u.Limit)
	case u.Used > 0:
		return math.Inf(1)
	default:
		return 0
	}
}

// OverLimit is by how much more is used than is granted, or 0.
func (u Usage) OverLimit() int64 { return max(0, u.Used-u.Limit) }

// compare sorts those first that are used most.
func compare(a, b Usage) int {
	return cmp.Or(cmp.Compare(b.Ratio(), a.Ratio()), compareConsumers(a.Consumer, b.Consumer), cmp.Compare(a.ResourceType, b.ResourceType))
}

// usagesOf returns what buckets show, those first that are used most. Buckets of dimensions show parts of it, and are left
// out. A bucket that is being moved to another namespace may be there twice, and counts once.
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

// usageOf is what a bucket shows.
func usageOf(bucket *quotav1alpha1.AllowanceBucket) Usage {
	return Usage{
		Consumer: bucket.Spec.ConsumerRef, ResourceType: bucket.Spec.ResourceType, Used: bucket.Status.Allocated, Limit: bucket.Status.Limit,
	}
}

func compareConsumers(a, b quotav1alpha1.ConsumerRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIGroup, b.APIGroup))
}
