package validate

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
)

// Allocation validates a created (old is nil) or changed allocation. [QuotaSpecs] checks the API server's rules for
// the spec of a ResourceQuota.
func Allocation(old, new *quotav1alpha1.ResourceQuotaAllocation) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Selector, new.Spec.Selector) {
		errs = metav1validation.ValidateLabelSelector(&new.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))
	}
	if len(new.Spec.Allocation.Hard) == 0 {
		errs = append(errs, field.Required(path.Child("allocation", "hard"), "name at least one resource and how much of it the selected namespaces may have together"))
	}
	if new.Spec.Default != nil && (old == nil || !equality.Semantic.DeepEqual(old.Spec, new.Spec)) {
		errs = append(errs, allocationDefault(new.Spec.Default, new.Spec.Allocation.Hard, path.Child("default"))...)
	}
	return errs
}

// allocationDefault validates the default ResourceQuota of namespaces against the cap.
func allocationDefault(quota *quotav1alpha1.DefaultResourceQuota, hard corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	if len(quota.Hard) == 0 {
		return field.ErrorList{field.Required(path.Child("hard"), "name at least one capped resource and how much of it a namespace gets")}
	}
	limits := allocation.Limits(hard)
	for _, name := range slices.Sorted(maps.Keys(quota.Hard)) {
		amount, at := quota.Hard[name], path.Child("hard").Key(string(name))
		limit, isCapped := limits[name]
		switch {
		case !isCapped:
			errs = append(errs, field.Invalid(at, amount.String(), "the allocation does not cap this resource; take it out here, or add it to spec.allocation.hard"))
		case amount.Sign() < 0:
			errs = append(errs, field.Invalid(at, amount.String(), "must not be negative"))
		case amount.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, amount.String(), fmt.Sprintf("a single namespace cannot get more than the cap of all together, %s", limit.String())))
		}
	}
	return errs
}

// allocationWarnings warns of a selector for no namespace, or for every namespace.
func allocationWarnings(new *quotav1alpha1.ResourceQuotaAllocation, projects MemberNamespaces) []string {
	selector, err := metav1.LabelSelectorAsSelector(&new.Spec.Selector)
	switch {
	case err != nil:
		return nil
	case selector.Empty():
		return []string{"spec.selector selects every namespace but those of the system: they share this cap"}
	case len(projects.Selected(selector)) == 0:
		return []string{fmt.Sprintf("spec.selector (%s) selects no namespace so far: nothing is capped until a namespace has such labels", selector)}
	}
	return nil
}
