package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// tiered is a definition for the world's namespaces with the label tier.
func (w *increased) tiered(tier string, mode openmcpv1alpha1.QuotaMode, hard ...string) openmcpv1alpha1.QuotaDefinition {
	definition := w.definition(tier, mode, hard...)
	definition.Selector.MatchLabels["tier"] = tier
	return definition
}

func (w *increased) setTier(tier string) {
	w.Helper()
	change(w, w.namespace(), func(n *corev1.Namespace) { n.Labels["tier"] = tier })
}

// After a switch to another definition, nothing of the former one stays in the namespace.
func TestSwitch(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.tiered("gold", cumulative, "count/secrets=100"), w.tiered("silver", maximum, "count/configmaps=7"))
	w.increase("more", "count/secrets=5")
	w.wantEffect("more", "", "", no, openmcpv1alpha1.ReasonNoDefinition)
	w.setTier("gold")
	w.wantQuota("gold", "count/secrets=105")
	w.wantLabels(w.name, "gold", cumulative)
	w.wantDefinitions(config, "gold 1 InForce", "silver 0 InForce")
	w.setTier("silver")
	w.wantQuota("silver", "count/secrets=5", "count/configmaps=7")
	w.wantNoQuota("gold")
	w.wantLabels(w.name, "silver", maximum)
	w.wantEffect("more", maximum, "count/secrets: 5", yes, inEffect)
	w.wantDefinitions(config, "gold 0 InForce", "silver 1 InForce")
	w.wantEvent("Namespace", w.name, "QuotaRemoved", "ResourceQuota gold was removed: ResourceQuota silver takes its place")
	w.setTier("bronze")
	w.wantNoQuota("silver")
	w.wantLabels("", "", "")
	w.wantEffect("more", "", "", no, openmcpv1alpha1.ReasonNoDefinition, "no definition of a QuotaServiceConfig applies to namespace testswitch")
	w.wantDefinitions(config, "gold 0 InForce", "silver 0 InForce")
	w.setTier("gold")
	w.wantQuota("gold", "count/secrets=105")
	must(w, admin.Delete(t.Context(), config))
	w.wantNoQuota("gold")
	w.wantLabels("", "", "")
	w.wantEffect("more", "", "", no, openmcpv1alpha1.ReasonNoDefinition)
}

// The first matching definition of a namespace counts. The last one may match all namespaces.
func TestFirstDefinitionCounts(t *testing.T) {
	w := newIncreased(t)
	w.setTier("gold")
	config := w.config(w.tiered("gold", maximum, "count/secrets=100"), w.definition("other", maximum, "count/secrets=1"))
	w.wantQuota("gold", "count/secrets=100")
	w.wantNoQuota("other")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) { slices.Reverse(c.Spec.Quotas) })
	w.wantQuota("other", "count/secrets=1")
	w.wantNoQuota("gold")
}

// A template need not limit anything: the increases alone then make up the quota.
func TestTemplateWithoutAmounts(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, maximum))
	quota := w.wantQuota(base)
	if len(quota.Spec.Hard) > 0 {
		t.Errorf("the ResourceQuota limits %v", quota.Spec.Hard)
	}
	w.increase("some", "count/secrets=3")
	w.wantQuota(base, "count/secrets=3")
	w.wantEffect("some", maximum, "count/secrets: 3", yes, inEffect)
}

// Scopes are immutable, so Bursar replaces the ResourceQuota. It leaves out amounts that do not fit the scopes.
func TestScopesOfDefinitions(t *testing.T) {
	w := newIncreased(t)
	definition := w.definition(base, cumulative, "pods=10")
	definition.Template.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	config := w.config(definition)
	before := w.wantQuota(base, "pods=10")
	w.increase("pods", "pods=1")
	w.increase("secrets", "secrets=1")
	w.wantQuota(base, "pods=11")
	w.wantEffect("pods", cumulative, "pods: 1", yes, inEffect)
	w.wantEffect("secrets", cumulative, "", no, openmcpv1alpha1.ReasonInvalid, "ResourceQuota base cannot have it: spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource; change or delete it")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) { c.Spec.Quotas[0].Template.Spec.Scopes = nil })
	after := w.wantQuota(base, "pods=11", "secrets=1")
	if after.UID == before.UID || len(after.Spec.Scopes) > 0 {
		t.Errorf("the ResourceQuota is %s with scopes %v, want one made again without any", after.UID, after.Spec.Scopes)
	}
	w.wantEffect("secrets", cumulative, "secrets: 1", yes, inEffect)
	w.wantLabels(w.name, base, cumulative)
}

// A definition without selector is for every namespace except those of the cluster and of Bursar. The separate server
// has no other namespaces.
func TestDefinitionForEveryNamespace(t *testing.T) {
	t.Parallel()
	apart, err := startApart()
	must(t, err)
	w := &increased{T: t, api: apart.Admin, name: nameOf(t)}
	w.create(w.newNamespace(w.name))
	all, none := w.definition("all", maximum), w.definition("none", maximum)
	all.Selector, none.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"no-namespace": "has-this"}}
	config := w.config(none, all)
	w.wantQuota("all")
	const others = 1 // default
	w.wantDefinitions(config, "none 0 InForce", fmt.Sprintf("all %d InForce", 1+others))
	for _, name := range []string{"kube-system", "kube-public", "kube-node-lease", "bursar-system"} {
		var quotas corev1.ResourceQuotaList
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(w, errors.Join(w.api.List(t.Context(), &quotas, client.InNamespace(name)), client.IgnoreNotFound(w.api.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))))
		if len(quotas.Items) > 0 || namespace.Labels[openmcpv1alpha1.LabelManagedBy] != "" {
			t.Errorf("namespace %s has labels %v and %d ResourceQuotas", name, namespace.Labels, len(quotas.Items))
		}
	}
	message := config.Status.Quotas[0].Conditions[0].Message
	w.wantContains("the message", message, "it applies to no namespace: its selector matches none")
	must(w, w.api.Delete(t.Context(), config))
	w.wantNoQuota("all")
	w.wantLabels("", "", "")
	eventually(w, func() error {
		var quotas corev1.ResourceQuotaList
		if err := w.api.List(t.Context(), &quotas); err != nil || len(quotas.Items) > 0 {
			return fmt.Errorf("%d ResourceQuotas are left: %w", len(quotas.Items), err)
		}
		return nil
	})
}

// A later namespace gets its quota. Bursar leaves a namespace with the operation annotation alone until the annotation
// goes.
func TestIgnore(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"Quota": "quota.openmcp.cloud/operation", "General": "openmcp.cloud/operation"} {
		t.Run(name, func(t *testing.T) {
			w := newIncreased(t)
			config := w.config(w.definition(base, cumulative, "count/secrets=10"))
			w.wantQuota(base, "count/secrets=10")
			w.wantLabels(w.name, base, cumulative)
			change(w, w.namespace(), func(n *corev1.Namespace) { n.Annotations = map[string]string{key: "ignore"} })
			w.wantDefinitions(config, "base 0 InForce")
			w.increase("more", "count/secrets=5")
			eventually(w, func() error {
				object, err := w.read("more")
				if err == nil && (len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != openmcpv1alpha1.ReasonIgnored) {
					return fmt.Errorf("the increase has %+v", object.Status)
				}
				return err
			})
			object, err := w.read("more")
			must(w, err)
			if len(object.Labels)+len(object.Annotations) > 0 {
				t.Errorf("the increase has labels %v and annotations %v", object.Labels, object.Annotations)
			}
			w.wantContains("the message", object.Status.Conditions[0].Message, key+"=ignore")
			quota := w.wantQuota(base, "count/secrets=10")
			change(w, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard = list("count/secrets=7") })
			change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
				c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=20")
			})
			w.wantDefinitions(config, "base 0 InForce")
			w.wantQuota(base, "count/secrets=7")
			change(w, w.namespace(), func(n *corev1.Namespace) { n.Annotations = nil })
			w.wantQuota(base, "count/secrets=25")
			w.wantEffect("more", cumulative, "count/secrets: 5", yes, inEffect)
		})
	}
}

// Two configurations for the same namespace do not fight. The namespace stays with its present one, and the other
// reports it.
func TestTwoConfigurations(t *testing.T) {
	w := newIncreased(t)
	second := w.newConfig("-b", w.definition("second", maximum, "count/secrets=2"))
	w.create(second)
	w.wantQuota("second", "count/secrets=2")
	w.wantLabels(second.Name, "second", maximum)
	w.wantCondition(second, openmcpv1alpha1.ConditionConflict, no, openmcpv1alpha1.ReasonNoConflict)
	first := w.newConfig("-a", w.definition("first", maximum, "count/secrets=1"))
	w.create(first)
	w.wantCondition(first, openmcpv1alpha1.ConditionConflict, yes, openmcpv1alpha1.ReasonNamespacesHeld, "QuotaServiceConfig testtwoconfigurations-b holds testtwoconfigurations; definitions here select them too")
	w.wantDefinitions(first, "first 0 InForce")
	w.wantNoQuota("first")
	w.wantQuota("second", "count/secrets=2")
	w.wantLabels(second.Name, "second", maximum)
	w.wantCondition(second, openmcpv1alpha1.ConditionConflict, no, openmcpv1alpha1.ReasonNoConflict)
	must(w, admin.Delete(t.Context(), second))
	w.wantQuota("first", "count/secrets=1")
	w.wantNoQuota("second")
	w.wantLabels(first.Name, "first", maximum)
	w.wantCondition(first, openmcpv1alpha1.ConditionConflict, no, openmcpv1alpha1.ReasonNoConflict)

	// Of two configurations for a new namespace the first by name gets it, regardless of age.
	third := w.newConfig("-0", w.definition("third", maximum, "count/secrets=3"))
	w.create(third)
	// A new namespace that comes before the configuration would get, and keep, the other one.
	w.wantCondition(third, openmcpv1alpha1.ConditionConflict, yes, openmcpv1alpha1.ReasonNamespacesHeld)
	other := *w
	other.name = w.name + "-other"
	w.create(w.newNamespace(other.name))
	other.wantQuota("third", "count/secrets=3")
	other.wantLabels(third.Name, "third", maximum)
	w.wantLabels(first.Name, "first", maximum)
}

// Bursar leaves a namespace with the label of another operator alone until somebody removes the label, or sets it to a
// configuration here.
func TestManagedByAnotherOperator(t *testing.T) {
	w := newIncreased(t)
	change(w, w.namespace(), func(n *corev1.Namespace) {
		n.Labels = map[string]string{openmcpv1alpha1.LabelManagedBy: "other-operator", "world": w.name, "taken": "yes"}
	})
	w.increase("more", "count/secrets=5")
	waitIgnored := func() {
		t.Helper()
		eventually(w, func() error {
			object, err := w.read("more")
			if err == nil && (len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != openmcpv1alpha1.ReasonIgnored) {
				return fmt.Errorf("the increase has %+v", object.Status)
			}
			return err
		})
	}
	waitIgnored() // Bursar has seen the label
	config := w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantDefinitions(config, "base 0 InForce")
	waitIgnored()
	if got := w.namespace().Labels[openmcpv1alpha1.LabelManagedBy]; got != "other-operator" {
		t.Errorf("the namespace is managed by %q", got)
	}
	w.wantNoQuota(base)
	change(w, w.namespace(), func(n *corev1.Namespace) { delete(n.Labels, openmcpv1alpha1.LabelManagedBy) })
	w.wantQuota(base, "count/secrets=15")
	w.wantLabels(config.Name, base, cumulative)

	t.Log("it is handed over, and its quota stays as it is")
	change(w, w.namespace(), func(n *corev1.Namespace) { n.Labels[openmcpv1alpha1.LabelManagedBy] = "other-operator" })
	waitIgnored()
	if got := w.namespace().Labels[openmcpv1alpha1.LabelManagedBy]; got != "other-operator" {
		t.Errorf("the handed over namespace is managed by %q", got)
	}
	w.wantQuota(base, "count/secrets=15")
}
