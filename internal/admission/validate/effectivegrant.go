package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// EffectiveGrant validates a created (old is nil) or changed effective grant.
func EffectiveGrant(old, new *quotav1alpha1.EffectiveResourceGrant) field.ErrorList {
	path := field.NewPath("spec")
	if old == nil {
		errs := checkReference(path.Child("consumerRef"), new.Spec.ConsumerRef)
		return append(errs, checkResourceType(path.Child("resourceType"), new.Spec.ResourceType)...)
	}
	errs := immutable(path.Child("consumerRef"), old.Spec.ConsumerRef != new.Spec.ConsumerRef)
	return append(errs, immutable(path.Child("resourceType"), old.Spec.ResourceType != new.Spec.ResourceType)...)
}
