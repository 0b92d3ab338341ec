package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// deleting is a definition with deletion of ineffective increases.
func (w *increased) deleting(mode openmcpv1alpha1.QuotaMode, hard ...string) openmcpv1alpha1.QuotaDefinition {
	definition := w.definition(base, mode, hard...)
	definition.DeleteIneffectiveQuotas = true
	return definition
}

// In maximum mode, Bursar deletes overshadowed increases, and nothing else.
func TestDeletionInMaximumMode(t *testing.T) {
	w := newIncreased(t)
	w.config(w.deleting(maximum, "count/secrets=10"))
	w.increases()
	w.wantNoIncrease("small")
	w.wantQuota(base, "count/secrets=100", "count/configmaps=10")
	w.wantEffect("medium", maximum, "count/configmaps: 10", yes, inEffect)
	w.wantEffect("big", maximum, "count/secrets: 100", yes, inEffect)
	w.wantEvent("Namespace", w.name, "QuotaIncreaseDeleted",
		"QuotaIncrease small was deleted, because definition base deletes increases without effect: ResourceQuota base has as much or more without it: count/secrets: 5 here")
	w.increase("zulu", "count/configmaps=10")
	w.wantNoIncrease("zulu")
	w.increase("also", "count/configmaps=10")
	w.wantNoIncrease("medium")
	w.wantEvent("Namespace", w.name, "QuotaIncreaseDeleted", "QuotaIncrease medium was deleted")
	w.wantQuota(base, "count/secrets=100", "count/configmaps=10")
}

// In cumulative mode every increase except one of zero has an effect.
func TestNoDeletionInCumulativeMode(t *testing.T) {
	w := newIncreased(t)
	w.config(w.deleting(cumulative, "count/secrets=10"))
	w.increases()
	w.increase("zero", "count/secrets=0")
	w.increase("nothing")
	w.wantNoIncrease("nothing")
	w.wantEvent("Namespace", w.name, "QuotaIncreaseDeleted", "QuotaIncrease nothing was deleted, because definition base deletes increases without effect: it names no resource")
	w.wantQuota(base, "count/secrets=165", "count/configmaps=10")
	for _, name := range []string{"small", "medium", "big", "zero"} {
		object, err := w.read(name)
		must(w, err)
		w.wantEffect(name, cumulative, sumOf(object), yes, inEffect)
	}
}

// sumOf is the effect of an increase in cumulative mode.
func sumOf(object *openmcpv1alpha1.QuotaIncrease) string {
	if amount, has := object.Spec.Hard["count/configmaps"]; has {
		secrets := object.Spec.Hard["count/secrets"]
		return fmt.Sprintf("count/configmaps: %s, count/secrets: %s", amount.String(), secrets.String())
	}
	amount := object.Spec.Hard["count/secrets"]
	return "count/secrets: " + amount.String()
}

// In singular mode, Bursar deletes nothing if the label is missing, or names no increase. It never deletes the increase
// in the label.
func TestDeletionInSingularMode(t *testing.T) {
	w := newIncreased(t)
	w.config(w.deleting(singular, "count/secrets=10"))
	w.increases()
	wantAll := func() {
		t.Helper()
		for _, name := range []string{"small", "medium", "big"} {
			w.wantEffect(name, singular, "", no, notSelected)
		}
	}
	wantAll()
	w.use("gone")
	eventually(w, func() error {
		object, err := w.read("big")
		if err == nil && object.Status.Conditions[0].Message != "namespace testdeletioninsingularmode has the label quota.openmcp.cloud/use=gone, which names no usable QuotaIncrease, "+
			"and definition base is in mode singular; set the label to big for this one to count" {
			return fmt.Errorf("the message is %q", object.Status.Conditions[0].Message)
		}
		return err
	})
	wantAll()
	w.use("")
	wantAll()
	w.use("small")
	w.wantNoIncrease("medium")
	w.wantNoIncrease("big")
	w.wantEffect("small", singular, "[active]", yes, inEffect)
	w.wantQuota(base, "count/secrets=10")
	w.wantEvent("Namespace", w.name, "QuotaIncreaseDeleted",
		"QuotaIncrease big was deleted, because definition base deletes increases without effect: namespace testdeletioninsingularmode has the label quota.openmcp.cloud/use=small")
}

// With previewDeletion, Bursar only marks increases. The mark goes with its reason.
func TestPreview(t *testing.T) {
	w := newIncreased(t)
	definition := w.deleting(maximum, "count/secrets=10")
	definition.PreviewDeletion = true
	config := w.config(definition)
	w.increases()
	wantMark := func(name, want string) {
		t.Helper()
		eventually(w, func() error {
			object, err := w.read(name)
			if got := object.Annotations["quota.openmcp.cloud/to-be-deleted"]; err == nil && got != want {
				return fmt.Errorf("%s is marked %q, want %q", name, got, want)
			}
			return err
		})
	}
	w.wantQuota(base, "count/secrets=100", "count/configmaps=10")
	wantMark("small", "ResourceQuota base has as much or more without it: count/secrets: 5 here, 100 there")
	w.wantEvent("QuotaIncrease", "small", "QuotaIncreaseWouldBeDeleted", "without previewDeletion, the definition would delete it: ResourceQuota base has as much")
	wantMark("medium", "")
	wantMark("big", "")
	small, err := w.read("small")
	must(w, err)
	change(w, small, func(q *openmcpv1alpha1.QuotaIncrease) { q.Spec.Hard = list("count/secrets=101") })
	wantMark("small", "")
	wantMark("big", "ResourceQuota base has as much or more without it: count/secrets: 100 here, 101 there")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].PreviewDeletion, c.Spec.Quotas[0].DeleteIneffectiveQuotas = false, false
	})
	wantMark("big", "")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) { c.Spec.Quotas[0].DeleteIneffectiveQuotas = true })
	w.wantNoIncrease("big")
	wantMark("medium", "")
	wantMark("small", "")
}

// Bursar takes over the objects of the openMCP quota operator as they are, without replacing any.
func TestTakeover(t *testing.T) {
	w := newIncreased(t)
	config := w.newConfig("", w.definition(base, singular, "count/secrets=10"))
	change(w, w.namespace(), func(n *corev1.Namespace) {
		n.Annotations = map[string]string{openmcpv1alpha1.AnnotationOperation: openmcpv1alpha1.OperationIgnore} // as if Bursar were not there yet
		n.Labels["quota.openmcp.cloud/base"] = base
		n.Labels["quota.openmcp.cloud/mode"] = "singular"
		n.Labels["quota.openmcp.cloud/managed-by"] = config.Name
		n.Labels["quota.openmcp.cloud/use"] = "medium"
	})
	namespace := w.namespace()
	medium := w.newIncrease("medium", "count/secrets=50", "count/configmaps=10")
	medium.Labels = map[string]string{"quota.openmcp.cloud/mode": "singular"}
	medium.Annotations = map[string]string{"quota.openmcp.cloud/effect": "[active] count/configmaps: 10, count/secrets: 50"}
	theirs := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list("count/secrets=50", "count/configmaps=10")}}
	theirs.Namespace, theirs.Name = w.name, base
	theirs.Labels = map[string]string{"quota.openmcp.cloud/managed-by": config.Name, "quota.openmcp.cloud/quota-definition": base}
	theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: w.name, UID: namespace.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
	must(w, bursar.Create(t.Context(), theirs))
	must(w, bursar.Create(t.Context(), medium))
	w.cleanUp(medium)
	w.create(config)
	w.wantDefinitions(config, "base 0 InForce")
	change(w, w.namespace(), func(n *corev1.Namespace) { n.Annotations = nil })
	w.wantDefinitions(config, "base 1 InForce")
	w.wantEffect("medium", singular, "[active] count/configmaps: 10, count/secrets: 50", yes, inEffect)
	eventually(w, func() error {
		quota, err := w.quota(base)
		if err == nil && quota.Annotations["quota.openmcp.cloud/composition"] == "" {
			return fmt.Errorf("the ResourceQuota says nothing of its composition")
		}
		return err
	})
	quota := w.wantQuota(base, "count/secrets=50", "count/configmaps=10")
	if quota.UID != theirs.UID || len(quota.OwnerReferences) != 1 || quota.OwnerReferences[0].BlockOwnerDeletion == nil {
		t.Errorf("the ResourceQuota was made again or has other owners: %+v", quota.ObjectMeta)
	}
	w.wantLabels(config.Name, base, singular)
	w.increase("bigger", "count/secrets=60")
	w.use("bigger")
	w.wantQuota(base, "count/secrets=60")
}
