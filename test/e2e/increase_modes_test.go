package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown

	inEffect     = openmcpv1alpha1.ReasonInEffect
	overshadowed = openmcpv1alpha1.ReasonOvershadowed
	notSelected  = openmcpv1alpha1.ReasonNotSelected
)

// The example of the document in cumulative mode.
func TestCumulative(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=10")
	w.increases()
	quota := w.wantQuota(base, "count/secrets=165", "count/configmaps=10")
	w.wantLabels(w.name, base, cumulative)
	w.wantEffect("small", cumulative, "count/secrets: 5", yes, inEffect)
	w.wantEffect("medium", cumulative, "count/configmaps: 10, count/secrets: 50", yes, inEffect)
	w.wantEffect("big", cumulative, "count/secrets: 100", yes, inEffect)
	if quota.Labels["quota.openmcp.cloud/managed-by"] != w.name || quota.Labels["quota.openmcp.cloud/quota-definition"] != base {
		t.Errorf("the ResourceQuota has labels %v", quota.Labels)
	}
	if owner := metav1.GetControllerOf(quota); owner == nil || owner.Kind != "Namespace" || owner.UID != w.namespace().UID {
		t.Errorf("the ResourceQuota is controlled by %+v, want the namespace", owner)
	}
	w.wantContains("the composition", quota.Annotations["quota.openmcp.cloud/composition"],
		"count/configmaps: 10 = medium 10; count/secrets: 165 = base 10 + big 100 + medium 50 + small 5")
	w.wantEvent("ResourceQuota", base, "QuotaChanged", "count/secrets: 10 = base 10")
	w.wantEvent("ResourceQuota", base, "QuotaChanged", "count/secrets: 165 = base 10 + big 100 + medium 50 + small 5")
	w.wantEvent("ResourceQuota", base, "QuotaChanged", "count/configmaps: 10 = medium 10")
}

// The example of the document in maximum mode, and the document's results for further increases.
func TestMaximum(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, maximum, "count/secrets=10"))
	w.increases()
	quota := w.wantQuota(base, "count/secrets=100", "count/configmaps=10")
	w.wantLabels(w.name, base, maximum)
	w.wantEffect("small", maximum, "", no, overshadowed, "ResourceQuota base has as much or more without it: count/secrets: 5 here, 100 there")
	w.wantEffect("medium", maximum, "count/configmaps: 10", yes, inEffect, "ResourceQuota base has count/configmaps: 10 of it")
	w.wantEffect("big", maximum, "count/secrets: 100", yes, inEffect)
	w.wantContains("the composition", quota.Annotations["quota.openmcp.cloud/composition"], "count/secrets: 100 = highest of base 10, big 100, medium 50, small 5")

	tie := w.increase("also", "count/configmaps=10")
	w.wantEffect("also", maximum, "count/configmaps: 10", yes, inEffect)
	w.wantEffect("medium", maximum, "", no, overshadowed)
	must(w, admin.Delete(t.Context(), tie))
	w.wantEffect("medium", maximum, "count/configmaps: 10", yes, inEffect)
	w.increase("zulu", "count/configmaps=10")
	w.wantEffect("zulu", maximum, "", no, overshadowed)
	w.wantEffect("medium", maximum, "count/configmaps: 10", yes, inEffect)
	w.increase("more", "count/configmaps=11")
	w.wantEffect("medium", maximum, "", no, overshadowed)
	w.wantQuota(base, "count/secrets=100", "count/configmaps=11")
}

// The example of the document in singular mode: the label on the namespace selects the increase.
func TestSingular(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, singular, "count/secrets=10"))
	w.increases()
	w.wantQuota(base, "count/secrets=10")
	w.wantEffect("medium", singular, "", no, notSelected, "namespace testsingular has no label quota.openmcp.cloud/use", "set the label to medium for this one to count")
	w.use("medium")
	w.wantQuota(base, "count/secrets=50", "count/configmaps=10")
	w.wantEffect("medium", singular, "[active] count/configmaps: 10, count/secrets: 50", yes, inEffect)
	w.wantEffect("big", singular, "", no, notSelected, "namespace testsingular has the label quota.openmcp.cloud/use=medium")
	w.use("small")
	w.wantQuota(base, "count/secrets=10")
	w.wantEffect("small", singular, "[active]", yes, inEffect)
	w.wantEffect("medium", singular, "", no, notSelected)
	w.use("gone")
	w.wantQuota(base, "count/secrets=10")
	w.wantEffect("small", singular, "", no, notSelected, "quota.openmcp.cloud/use=gone, which names no usable QuotaIncrease")
}

// A change of the mode, or of an increase, is a change of the quota.
func TestChanges(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.increases()
	w.wantQuota(base, "count/secrets=165", "count/configmaps=10")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) { c.Spec.Quotas[0].Mode = maximum })
	w.wantQuota(base, "count/secrets=100", "count/configmaps=10")
	w.wantLabels(w.name, base, maximum)
	w.wantEffect("small", maximum, "", no, overshadowed)
	small, err := w.read("small")
	must(w, err)
	change(w, small, func(q *openmcpv1alpha1.QuotaIncrease) { q.Spec.Hard = list("count/secrets=500") })
	w.wantQuota(base, "count/secrets=500", "count/configmaps=10")
	w.wantEffect("small", maximum, "count/secrets: 500", yes, inEffect)
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=1000")
	})
	w.wantQuota(base, "count/secrets=1000", "count/configmaps=10")
	w.wantDefinitions(config, "base 1 InForce")
}
