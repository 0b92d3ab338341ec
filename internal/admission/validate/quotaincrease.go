package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

// QuotaIncrease validates the amounts of a created (old is nil) or changed increase. [QuotaSpecs] checks the API
// server's own rules for amounts.
func QuotaIncrease(old, new *openmcpv1alpha1.QuotaIncrease) field.ErrorList {
	changed := changedAmounts(old, new)
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if amount := changed[name]; amount.Sign() < 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "hard").Key(string(name)), amount.String(),
				"must not be negative: an increase cannot lower a quota"))
		}
	}
	return errs
}

// changedAmounts returns the amounts missing from the old version.
func changedAmounts(old, new *openmcpv1alpha1.QuotaIncrease) corev1.ResourceList {
	changed := corev1.ResourceList{}
	for name, amount := range new.Spec.Hard {
		if old != nil {
			if before, had := old.Spec.Hard[name]; had && before.Cmp(amount) == 0 {
				continue
			}
		}
		changed[name] = amount
	}
	return changed
}

func (w *Webhooks) quotaIncrease(ctx context.Context, c change[openmcpv1alpha1.QuotaIncrease]) result {
	if c.new == nil {
		return result{}
	}
	changed := changedAmounts(c.old, c.new)
	if errs := QuotaIncrease(c.old, c.new); len(errs) > 0 || len(changed) == 0 {
		return result{errs: errs}
	}
	errs, err := w.QuotaSpecs.Check(ctx, field.NewPath("spec"), &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: changed}})
	if err != nil || len(errs) > 0 {
		return result{errs: errs, unknown: err}
	}
	return result{warnings: w.Advice.QuotaNames(changed)}
}

// QuotaServiceConfig validates the definitions of a created (old is nil) or changed configuration. Unchanged
// definitions may be invalid. [QuotaSpecs] checks the API server's own rules for the specs of ResourceQuotas.
func QuotaServiceConfig(old, new *openmcpv1alpha1.QuotaServiceConfig) field.ErrorList {
	var errs field.ErrorList
	definitionErrs := increase.ValidateDefinitions(new)
	for _, i := range changedDefinitions(old, new) {
		for _, definitionErr := range definitionErrs[i] {
			// An error in the name of the configuration is an error of each definition.
			if !slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Error() == definitionErr.Error() }) {
				errs = append(errs, definitionErr)
			}
		}
	}
	return errs
}

// changedDefinitions returns the indices of the definitions missing from the old version.
func changedDefinitions(old, new *openmcpv1alpha1.QuotaServiceConfig) []int {
	var changed []int
	var before []openmcpv1alpha1.QuotaDefinition
	if old != nil {
		before = slices.Clone(old.Spec.Quotas)
	}
	for i := range new.Spec.Quotas {
		at := slices.IndexFunc(before, func(d openmcpv1alpha1.QuotaDefinition) bool {
			return equality.Semantic.DeepEqual(d, new.Spec.Quotas[i])
		})
		if at < 0 {
			changed = append(changed, i)
			continue
		}
		before = slices.Delete(before, at, at+1) // a second equal definition is new
	}
	return changed
}

func (w *Webhooks) quotaServiceConfig(ctx context.Context, c change[openmcpv1alpha1.QuotaServiceConfig]) result {
	if c.new == nil {
		return result{}
	}
	errs := QuotaServiceConfig(c.old, c.new)
	for _, i := range changedDefinitions(c.old, c.new) {
		found, err := w.QuotaSpecs.Check(ctx, increase.SpecPath(i), increase.Quota(&c.new.Spec.Quotas[i]))
		if err != nil {
			return result{unknown: err}
		}
		errs = append(errs, found...)
	}
	if len(errs) > 0 {
		return result{errs: errs}
	}
	warnings := definitionWarnings(c.new)
	for _, i := range changedDefinitions(c.old, c.new) {
		warnings = append(warnings, w.Advice.QuotaNames(c.new.Spec.Quotas[i].Template.Spec.Hard)...)
	}
	return result{warnings: warnings}
}

// definitionWarnings warns of valid but probably unintended definitions.
func definitionWarnings(new *openmcpv1alpha1.QuotaServiceConfig) []string {
	var warnings []string
	all := ""
	for i := range new.Spec.Quotas {
		definition := &new.Spec.Quotas[i]
		if all != "" {
			warnings = append(warnings, fmt.Sprintf("definition %s applies to no namespace: %s comes first and selects all; put it last", definition.Name, all))
		} else if selector, err := increase.Selector(definition); err == nil && selector.Empty() {
			all = definition.Name
		}
		if definition.Mode == openmcpv1alpha1.ModeCumulative && (definition.DeleteIneffectiveQuotas || definition.PreviewDeletion) {
			warnings = append(warnings, fmt.Sprintf("definition %s deletes only QuotaIncreases that name no resource: in cumulative mode every other has an effect", definition.Name))
		}
	}
	return warnings
}
