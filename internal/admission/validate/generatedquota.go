package validate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// generatedQuota denies an edit of a ResourceQuota that a definition keeps, which would be taken back, to whoever may not
// change the definition. Labels and annotations may be added, but for those that say that a definition keeps it: Bursar
// removes such a ResourceQuota once no definition does.
func (w *Webhooks) generatedQuota(ctx context.Context, c change[corev1.ResourceQuota]) verdict {
	if c.old == nil || c.new == nil || c.byBursar {
		return verdict{}
	}
	isKept, comesToBe := isGenerated(c.old), !isGenerated(c.old) && isGenerated(c.new)
	if !comesToBe && (!isKept || equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec)) {
		return verdict{}
	}
	by := c.old.Labels
	if comesToBe {
		by = c.new.Labels
	}
	config, definition := by[openmcpv1alpha1.LabelManagedBy], by[openmcpv1alpha1.LabelDefinition]
	may, err := w.MayEditDefinitions(ctx, c.user, config)
	switch {
	case err != nil:
		return verdict{unknown: fmt.Errorf("find out whether the user may change QuotaServiceConfig %s: %w", config, err)}
	case !may && comesToBe:
		return verdict{forbidden: fmt.Sprintf("the labels %s and %s are for ResourceQuotas that are made from definitions", openmcpv1alpha1.LabelManagedBy, openmcpv1alpha1.LabelDefinition)}
	case !may:
		return verdict{forbidden: fmt.Sprintf("it is kept as definition %s of QuotaServiceConfig %s and the QuotaIncreases of the namespace say, and would be put back;"+
			" ask an administrator for a QuotaIncrease, or to change the definition", definition, config)}
	}
	return verdict{}
}

// isGenerated reports whether a ResourceQuota says that it is made from a definition.
func isGenerated(quota *corev1.ResourceQuota) bool {
	return quota.Labels[openmcpv1alpha1.LabelManagedBy] != "" && quota.Labels[openmcpv1alpha1.LabelDefinition] == quota.Name
}
