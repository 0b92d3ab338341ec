package validate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// quotaAlert validates a create or a changed spec. A threshold from before a change of the bounds may stay.
func (w *Webhooks) quotaAlert(_ context.Context, c change[quotav1alpha1.QuotaAlert]) result {
	if c.new == nil || c.old != nil && equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec) {
		return result{}
	}
	spec, path := &c.new.Spec, field.NewPath("spec")
	errs := checkReference(path.Child("consumerRef"), spec.ConsumerRef)
	if home := w.Catalog.ConsumerNamespace(spec.ConsumerRef); home != c.new.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), c.new.Namespace,
			fmt.Sprintf("an alert for %s %s belongs in namespace %s, where its quota is shown", spec.ConsumerRef.Kind, spec.ConsumerRef.Name, home)))
	}
	var warnings []string
	for i, threshold := range spec.Thresholds {
		if c.old != nil && slices.Contains(c.old.Spec.Thresholds, threshold) {
			continue
		}
		if bounds := w.ConsumerThresholds; !bounds.Allow(int(threshold.Percent)) {
			errs = append(errs, field.Invalid(path.Child("thresholds").Index(i).Child("percent"), threshold.Percent,
				fmt.Sprintf("must be from %d to %d, the bounds of the platform", bounds.MinPercent, bounds.MaxPercent)))
		}
		if w.Catalog.Registration(threshold.ResourceType) == nil {
			warnings = append(warnings, fmt.Sprintf("resource type %q is not registered: its threshold has no effect until it is", threshold.ResourceType))
		}
	}
	if len(errs) > 0 {
		return result{errs: errs}
	}
	return result{warnings: warnings}
}
