package validate

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// generatedQuota denies edits of a ResourceQuota made from a definition, because Bursar would undo them. Users with a
// right to change the definition may edit it. Users may add labels and annotations, but not the labels of a generated
// ResourceQuota: Bursar deletes a marked one without a definition.
func (w *Webhooks) generatedQuota(ctx context.Context, c change[corev1.ResourceQuota]) result {
	if c.old == nil || c.new == nil || c.byBursar {
		return result{}
	}
	isKept, comesToBe := isGenerated(c.old), !isGenerated(c.old) && isGenerated(c.new)
	if !comesToBe && (!isKept || equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec)) {
		return result{}
	}
	by := c.old.Labels
	if comesToBe {
		by = c.new.Labels
	}
	config, definition := by[openmcpv1alpha1.LabelManagedBy], by[openmcpv1alpha1.LabelDefinition]
	may, err := w.Permissions.May(ctx, c.user, authorizationv1.ResourceAttributes{
		Verb: "update", Group: openmcpv1alpha1.GroupName, Resource: "quotaserviceconfigs", Name: config,
	})
	switch {
	case err != nil:
		return result{unknown: fmt.Errorf("find out whether the user may change QuotaServiceConfig %s: %w", config, err)}
	case !may && comesToBe:
		return result{forbidden: fmt.Sprintf("the labels %s and %s are reserved for ResourceQuotas that Bursar makes from definitions; leave them out", openmcpv1alpha1.LabelManagedBy, openmcpv1alpha1.LabelDefinition)}
	case !may:
		return result{forbidden: fmt.Sprintf("its amounts come from definition %s of QuotaServiceConfig %s and the QuotaIncreases of the namespace, and Bursar would undo the edit;"+
			" ask an administrator for a QuotaIncrease, or to change the definition", definition, config)}
	}
	return result{}
}

// isGenerated reports whether a ResourceQuota has the labels of one made from a definition.
func isGenerated(quota *corev1.ResourceQuota) bool {
	return quota.Labels[openmcpv1alpha1.LabelManagedBy] != "" && quota.Labels[openmcpv1alpha1.LabelDefinition] == quota.Name
}
