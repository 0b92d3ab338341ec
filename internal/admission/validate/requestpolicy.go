package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// quotaRequestPolicy validates the expressions, and warns about approvals without a bound on their sum.
func (w *Webhooks) quotaRequestPolicy(_ context.Context, c change[quotav1alpha1.QuotaRequestPolicy]) result {
	if c.new == nil {
		return result{}
	}
	_, errs := policy.CompileRequest(c.new)
	return result{errs: errs, warnings: warnUnboundedSums(w.Catalog, &c.new.Spec)}
}

// warnUnboundedSums warns about rules that approve by figures of quota with dimensions. These figures are those of the
// requested dimensions. So a rule for at most five GPUs of a model sees at most five in each zone, and approves five
// for every zone. Only a ceiling, or a cap of the registration, bounds the sum.
func warnUnboundedSums(registrations Catalog, spec *quotav1alpha1.QuotaRequestPolicySpec) []string {
	var warnings []string
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		if rule.Action != quotav1alpha1.ActionApprove || rule.Condition == "" {
			continue
		}
		for _, resourceType := range unboundedTypes(registrations, spec, rule) {
			warnings = append(warnings, fmt.Sprintf("rule %s approves requests for each set of dimensions of %s by itself: requests for several sets, "+
				"such as one for each zone, may together get more than the condition says. Bound the sum with spec.ceilings", rule.Name, resourceType))
		}
	}
	return warnings
}

// unboundedTypes returns the resource types of a rule with dimensions, and without a bound on the sum over them. For a
// policy without resource types it decides by the text of the condition.
func unboundedTypes(registrations Catalog, spec *quotav1alpha1.QuotaRequestPolicySpec, rule *quotav1alpha1.QuotaRequestRule) []string {
	if len(spec.ResourceTypes) == 0 {
		if len(spec.Ceilings) > 0 || !strings.Contains(rule.Condition, "dimensions") {
			return nil
		}
		return []string{"every resource type"}
	}

	var unbounded []string
	for _, resourceType := range spec.ResourceTypes {
		registration := registrations.Registration(resourceType)
		hasCeiling := slices.ContainsFunc(spec.Ceilings, func(c quotav1alpha1.QuotaRequestCeiling) bool { return c.ResourceType == resourceType })
		if registration != nil && registration.HasDimensions() && registration.MaxPerConsumer == 0 && !hasCeiling {
			unbounded = append(unbounded, resourceType)
		}
	}
	return unbounded
}
