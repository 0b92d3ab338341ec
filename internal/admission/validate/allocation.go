package validate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Allocation tells what is wrong with an allocation that is created (old is nil) or changed, but for what the
// API server says of a ResourceQuota with such a spec.
func Allocation(old, new *quotav1alpha1.ResourceQuotaAllocation) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Selector, new.Spec.Selector) {
		errs = metav1validation.ValidateLabelSelector(&new.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))
	}
	if len(new.Spec.Allocation.Hard) == 0 {
		errs = append(errs, field.Required(path.Child("allocation", "hard"), "name at least one resource and how much of it the selected namespaces may have together"))
	}
	return errs
}

// allocationWarnings says what is probably not meant: a selector that selects nothing, or everything.
func allocationWarnings(new *quotav1alpha1.ResourceQuotaAllocation, projects func(labels.Selector) []string) []string {
	selector, err := metav1.LabelSelectorAsSelector(&new.Spec.Selector)
	switch {
	case err != nil:
		return nil
	case selector.Empty():
		return []string{"spec.selector selects every namespace but those of the system: they share this cap"}
	case len(projects(selector)) == 0:
		return []string{fmt.Sprintf("spec.selector (%s) selects no namespace so far: nothing is capped until a namespace has such labels", selector)}
	}
	return nil
}
