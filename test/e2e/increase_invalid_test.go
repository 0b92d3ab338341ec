package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// The webhook rejects invalid objects with the error and its place.
func TestInvalidDefinitionsAndIncreases(t *testing.T) {
	w := newIncreased(t)
	config := func(change func(*openmcpv1alpha1.QuotaDefinition)) client.Object {
		definition := w.definition(base, maximum)
		change(&definition)
		return w.newConfig("", definition)
	}
	raw := func(hard string) client.Object {
		object := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "raw", "namespace": w.name}, "spec": map[string]any{"hard": map[string]any{"count/secrets": hard}},
		}}
		object.SetGroupVersionKind(openmcpv1alpha1.GroupVersion.WithKind("QuotaIncrease"))
		return object
	}
	tests := map[string]struct {
		object client.Object
		want   string
	}{
		"NegativeIncrease": {w.newIncrease("a", "count/secrets=-5"), `spec.hard[count/secrets]: Invalid value: "-5": must not be negative: an increase cannot lower a quota`},
		"UnknownResource":  {w.newIncrease("a", "secretz=5"), `spec.hard[secretz]: Invalid value: "secretz": must be a standard resource`},
		"HalfAPod":         {w.newIncrease("a", "pods=500m"), `spec.hard[pods]: Invalid value: "500m": must be an integer`},
		"Malformed":        {raw("a lot"), `spec.hard.count/secrets`},
		"MalformedSuffix":  {raw("5X"), `spec.hard.count/secrets`},
		"NegativeBase": {config(func(d *openmcpv1alpha1.QuotaDefinition) { d.Template.Spec.Hard = list("count/secrets=-1") }),
			`spec.quotas[0].template.spec.hard[count/secrets]: Invalid value: "-1": must be greater than or equal to 0`},
		"Scopes": {config(func(d *openmcpv1alpha1.QuotaDefinition) {
			d.Template.Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating", "NotTerminating"}
		}), `spec.quotas[0].template.spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes`},
		"Selector": {config(func(d *openmcpv1alpha1.QuotaDefinition) {
			d.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}
		}), `spec.quotas[0].selector: Invalid value`},
		"Mode":  {config(func(d *openmcpv1alpha1.QuotaDefinition) { d.Mode = "odd" }), `spec.quotas[0].mode: Unsupported value: "odd": supported values: "cumulative", "maximum", "singular"`},
		"Name":  {config(func(d *openmcpv1alpha1.QuotaDefinition) { d.Name = "Base" }), `spec.quotas[0].name: Invalid value: "Base"`},
		"Twice": {w.newConfig("", w.definition(base, maximum), w.definition(base, maximum)), `spec.quotas[1].name: Duplicate value: "base"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(t.Context(), tt.object)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to be invalid with %s", err, tt.want)
			}
		})
	}
}

// Only Bursar writes these statuses.
func TestStatusOfIncreasesIsBursars(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.definition(base, maximum))
	increase := w.increase("more", "count/secrets=5")
	for _, object := range []client.Object{config, increase} {
		eventually(w, func() error {
			must(w, admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			if err := admin.Status().Update(t.Context(), object); !apierrors.IsForbidden(err) {
				return fmt.Errorf("update the status of %T: got %w, want it to be forbidden", object, err)
			}
			return nil
		})
	}
}

// changeUnchecked changes a configuration without the webhook's validation.
func (w *increased) changeUnchecked(config *openmcpv1alpha1.QuotaServiceConfig, how func(*openmcpv1alpha1.QuotaServiceConfig)) {
	w.Helper()
	must(w, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := bursar.Get(w.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		how(config)
		return bursar.Update(w.Context(), config)
	}))
}

// An invalid definition disables only itself, and reports the error. Other definitions work on, and namespaces keep
// their quota under the invalid one.
func TestInvalidDefinition(t *testing.T) {
	t.Parallel()
	definitions := map[string]struct {
		change func(*openmcpv1alpha1.QuotaDefinition)
		want   string
	}{
		"Scopes": {func(d *openmcpv1alpha1.QuotaDefinition) {
			d.Template.Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating", "NotTerminating"}
		}, "conflicting scopes"},
		"Negative": {func(d *openmcpv1alpha1.QuotaDefinition) { d.Template.Spec.Hard = list("count/secrets=-1") }, "must be greater than or equal to 0"},
		"Selector": {func(d *openmcpv1alpha1.QuotaDefinition) {
			d.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}
		}, "spec.quotas[0].selector"},
	}
	for name, tt := range definitions {
		t.Run(name, func(t *testing.T) {
			w := newIncreased(t)
			w.setTier("gold")
			config := w.config(w.tiered("gold", cumulative, "count/secrets=10"), w.tiered("silver", maximum, "count/secrets=5"), w.definition("rest", maximum))
			before := w.wantQuota("gold", "count/secrets=10")
			w.wantLabels(w.name, "gold", cumulative)
			w.changeUnchecked(config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
				tt.change(&c.Spec.Quotas[0])
				c.Spec.Quotas[1].Template.Spec.Hard = list("count/secrets=6")
			})
			w.wantCondition(config, openmcpv1alpha1.ConditionReady, no, openmcpv1alpha1.ReasonValidationFailed, "definition gold: spec.quotas[0].", tt.want, "its present namespaces keep their quota")
			w.wantDefinitions(config, "gold 1 ValidationFailed", "silver 0 InForce", "rest 0 InForce")

			silver := *w
			silver.name = w.name + "-silver"
			namespace := w.newNamespace(silver.name)
			namespace.Labels["tier"] = "silver"
			w.create(namespace)
			silver.wantQuota("silver", "count/secrets=6")

			gold := *w
			gold.name = w.name + "-gold"
			namespace = w.newNamespace(gold.name)
			namespace.Labels["tier"] = "gold"
			w.create(namespace)
			gold.wantQuota("rest")
			w.wantDefinitions(config, "gold 1 ValidationFailed", "silver 1 InForce", "rest 1 InForce")
			after := w.wantQuota("gold", "count/secrets=10")
			if !isSameButForStatus(before, after) {
				t.Errorf("the ResourceQuota was changed to %+v", after)
			}
			w.wantLabels(w.name, "gold", cumulative)

			// People can change a valid definition beside it, and can correct it.
			change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
				c.Spec.Quotas[1].Template.Spec.Hard = list("count/secrets=7")
			})
			silver.wantQuota("silver", "count/secrets=7")
			change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
				c.Spec.Quotas[0] = w.tiered("gold", cumulative, "count/secrets=11")
			})
			w.wantQuota("gold", "count/secrets=11")
			gold.wantQuota("gold", "count/secrets=11")
			gold.wantNoQuota("rest")
			w.wantCondition(config, openmcpv1alpha1.ConditionReady, yes, openmcpv1alpha1.ReasonInForce)
		})
	}
}

// Removing the labels of a namespace does not lift its quota while the definition is invalid. The increases there
// report the invalid definition.
func TestInvalidDefinitionWithoutLabels(t *testing.T) {
	w := newIncreased(t)
	config := w.config(w.definition(base, cumulative, "count/secrets=10"))
	w.wantQuota(base, "count/secrets=10")
	w.wantLabels(w.name, base, cumulative)
	w.changeUnchecked(config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=-1")
	})
	w.wantDefinitions(config, "base 1 ValidationFailed")
	change(w, w.namespace(), func(n *corev1.Namespace) { n.Labels = w.labels() })
	w.increase("more", "count/secrets=5")
	eventually(w, func() error {
		object, err := w.read("more")
		if err != nil {
			return err
		}
		if len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != openmcpv1alpha1.ReasonQuotaNotWritten {
			return fmt.Errorf("the increase has %+v", object.Status)
		}
		return lacks(object.Status.Conditions[0].Message, []string{"definition base of QuotaServiceConfig " + w.name + " is invalid, so ResourceQuota base stays unchanged", "must be greater than or equal to 0"})
	})
	w.wantQuota(base, "count/secrets=10")
	w.wantDefinitions(config, "base 1 ValidationFailed")
	change(w, config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Spec.Hard = list("count/secrets=11")
	})
	w.wantQuota(base, "count/secrets=16")
	w.wantLabels(w.name, base, cumulative)
}

// A definition rejected by a policy of the cluster disables only itself, too.
func TestPolicyAgainstADefinition(t *testing.T) {
	w := newIncreased(t)
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"resourcequotas"}},
		}}}},
		Validations: []admissionregistrationv1.Validation{{
			Expression: fmt.Sprintf("!has(object.metadata.labels) || !('color' in object.metadata.labels) || object.metadata.labels['color'] != '%s'", w.name),
			Message:    "the cluster's policy does not like the color",
		}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	w.create(policy, binding)
	probe := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: w.name, Labels: map[string]string{"color": w.name}}}
	eventually(w, func() error {
		if err := admin.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("the policy is not effective: %w", err)
		}
		return nil
	})
	w.setTier("gold")
	config := w.config(w.tiered("gold", cumulative, "count/secrets=10"), w.definition("rest", cumulative, "count/secrets=1"))
	w.wantQuota("gold", "count/secrets=10")
	w.wantLabels(w.name, "gold", cumulative)
	w.changeUnchecked(config, func(c *openmcpv1alpha1.QuotaServiceConfig) {
		c.Spec.Quotas[0].Template.Labels = map[string]string{"color": w.name}
		c.Spec.Quotas[1].Template.Spec.Hard = list("count/secrets=2")
	})
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, no, openmcpv1alpha1.ReasonValidationFailed, "definition gold: ", "the cluster's policy does not like the color")
	w.wantDefinitions(config, "gold 1 ValidationFailed", "rest 0 InForce")
	other := *w
	other.name = w.name + "-other"
	w.create(w.newNamespace(other.name))
	other.wantQuota("rest", "count/secrets=2")
	w.wantQuota("gold", "count/secrets=10")
}

// An increase from before the webhook may be negative. It does not count, and others do.
func TestNegativeIncrease(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition(base, cumulative, "count/secrets=10"))
	negative := w.newIncrease("negative", "count/secrets=-5", "count/configmaps=5")
	must(w, bursar.Create(t.Context(), negative))
	w.cleanUp(negative)
	w.increase("more", "count/secrets=5")
	w.wantQuota(base, "count/secrets=15")
	w.wantEffect("negative", cumulative, "", no, openmcpv1alpha1.ReasonInvalid, "count/secrets: -5 must not be negative")
	w.wantEffect("more", cumulative, "count/secrets: 5", yes, inEffect)
}

// Bursar leaves somebody else's ResourceQuota alone.
func TestQuotaOfSomebodyElse(t *testing.T) {
	w := newIncreased(t)
	theirs := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: base, Namespace: w.name}, Spec: corev1.ResourceQuotaSpec{Hard: list("count/secrets=1")}}
	w.create(theirs)
	w.increase("more", "count/secrets=5")
	config := w.config(w.definition(base, cumulative, "count/secrets=10"))
	want := fmt.Sprintf("ResourceQuota %s/base was made by somebody else, and Bursar leaves it unchanged", w.name)
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, no, openmcpv1alpha1.ReasonQuotaExists, want)
	w.wantDefinitions(config, "base 0 QuotaExists")
	eventually(w, func() error {
		object, err := w.read("more")
		if err == nil && (len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != openmcpv1alpha1.ReasonQuotaNotWritten || object.Status.Conditions[0].Status != unknown) {
			return fmt.Errorf("the increase has %+v", object.Status)
		}
		return err
	})
	w.wantEvent("ResourceQuota", base, "QuotaExists", want)
	if quota := w.wantQuota(base, "count/secrets=1"); !isSameButForStatus(theirs, quota) {
		t.Errorf("the ResourceQuota was changed: %+v", quota)
	}
	w.wantLabels("", "", "")
	must(w, admin.Delete(t.Context(), theirs))
	w.wantQuota(base, "count/secrets=15")
	w.wantEffect("more", cumulative, "count/secrets: 5", yes, inEffect)
	w.wantCondition(config, openmcpv1alpha1.ConditionReady, yes, openmcpv1alpha1.ReasonInForce)
}

// isSameButForStatus reports whether nobody has changed a ResourceQuota, except for its status.
func isSameButForStatus(a, b *corev1.ResourceQuota) bool {
	same := equality.Semantic.DeepEqual
	return a.UID == b.UID && same(a.Spec, b.Spec) && same(a.Labels, b.Labels) && same(a.Annotations, b.Annotations) && same(a.OwnerReferences, b.OwnerReferences)
}
