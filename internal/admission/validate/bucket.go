package validate

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Bucket validates a created (old is nil) or changed bucket.
func Bucket(old, new *quotav1alpha1.AllowanceBucket) field.ErrorList {
	path := field.NewPath("spec")
	if old == nil {
		errs := checkReference(path.Child("consumerRef"), new.Spec.ConsumerRef)
		errs = append(errs, checkDimensions(path.Child("dimensions"), new.Spec.Dimensions)...)
		return append(errs, checkResourceType(path.Child("resourceType"), new.Spec.ResourceType)...)
	}
	errs := immutable(path.Child("consumerRef"), old.Spec.ConsumerRef != new.Spec.ConsumerRef)
	errs = append(errs, immutable(path.Child("dimensions"), !maps.Equal(old.Spec.Dimensions, new.Spec.Dimensions))...)
	return append(errs, immutable(path.Child("resourceType"), old.Spec.ResourceType != new.Spec.ResourceType)...)
}
