// Package webhooks keeps the webhook configurations in step with the policies, and proves that
// the API server has observed them.
//
// Each configuration carries a probe: a webhook for objects with a label that says which
// content the configuration has. A dry-run create of such an object is refused by the probe's
// handler once the API server works with that content, and by nobody before.
package webhooks

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// EnforcePath and ProbePath are where the handlers are served.
	EnforcePath = "/enforce"
	ProbePath   = "/probe"

	timeoutSeconds = 5
	servicePort    = 443
	// allResources stands in a rule for all resources, without subresources.
	allResources = "*"
)

// validating is what the validating configuration has to hold.
type validating struct {
	webhooks []admissionregistrationv1.ValidatingWebhook
	// hash is that of the webhooks without the probe, which carries it.
	hash string
	// kinds are those whose creates the API server asks about.
	kinds map[schema.GroupVersionKind]bool
}

// desired returns what the validating configuration has to hold.
func (c *Controller) desired(ctx context.Context) validating {
	rules, kinds := c.rules(ctx)
	webhooks := slices.Clone(c.Static)
	for i, r := range rules {
		webhooks = append(webhooks, c.enforcing(i, r))
	}
	for i := range webhooks {
		completeValidating(&webhooks[i])
	}
	hash := hashOf("validating", webhooks)
	probe := c.probe(hash)
	completeValidating(&probe)
	return validating{webhooks: append(webhooks, probe), hash: hash, kinds: kinds}
}

// desiredMutating returns what the mutating configuration has to hold, and the hash that its
// probe carries. It is the same at every time.
func (c *Controller) desiredMutating() (webhooks []admissionregistrationv1.MutatingWebhook, hash string) {
	webhooks = slices.Clone(c.Mutating)
	for i := range webhooks {
		completeMutating(&webhooks[i])
	}
	hash = hashOf("mutating", webhooks)
	p := c.probe(hash)
	probe := admissionregistrationv1.MutatingWebhook{
		Name: p.Name, ClientConfig: p.ClientConfig, Rules: p.Rules,
		NamespaceSelector: p.NamespaceSelector, ObjectSelector: p.ObjectSelector,
		FailurePolicy: p.FailurePolicy, MatchPolicy: p.MatchPolicy, SideEffects: p.SideEffects,
		TimeoutSeconds: p.TimeoutSeconds, AdmissionReviewVersions: p.AdmissionReviewVersions,
		ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
	}
	completeMutating(&probe)
	return append(webhooks, probe), hash
}

// rules returns the rules of each enforcing webhook, and the kinds that they cover. A webhook is
// called once for a request, with the object in one version, so the versions of one kind go to
// different webhooks.
//
// A kind that is defined but not served now stays covered: it may be served again at any moment.
// Where it cannot be told as which resource a kind is served, its group and version are covered
// as a whole: creates of other kinds take a detour then, and nothing goes unchecked.
func (c *Controller) rules(ctx context.Context) ([][]admissionregistrationv1.RuleWithOperations, map[schema.GroupVersionKind]bool) {
	triggers := c.triggers()
	slices.SortFunc(triggers, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	var rules [][]admissionregistrationv1.RuleWithOperations
	kinds := map[schema.GroupVersionKind]bool{}
	versions := map[schema.GroupKind]int{}
	for _, trigger := range triggers {
		resource, defined, err := c.Kinds.DefinedResourceFor(ctx, trigger)
		if err != nil {
			resource, defined = trigger.GroupVersion().WithResource(allResources), true
		}
		if !defined {
			continue
		}
		kinds[trigger] = true
		n := versions[trigger.GroupKind()]
		versions[trigger.GroupKind()]++
		if n == len(rules) {
			rules = append(rules, nil)
		}
		rules[n] = append(rules[n], creates(resource))
	}
	return rules, kinds
}

// triggers returns the kinds that policies protect now. Of the others, none counts as in effect
// from here on, though the API server may go on asking for a while: a policy that comes for such
// a kind while its rule is being taken away must not rely on it.
func (c *Controller) triggers() []schema.GroupVersionKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	triggers := c.Catalog.Triggers()
	maps.DeleteFunc(c.inEffect, func(kind schema.GroupVersionKind, _ bool) bool { return !slices.Contains(triggers, kind) })
	return triggers
}

func creates(resource schema.GroupVersionResource) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{resource.Group},
			APIVersions: []string{resource.Version},
			Resources:   []string{resource.Resource},
			Scope:       new(admissionregistrationv1.AllScopes),
		},
	}
}

// enforcing is the n-th webhook on protected kinds. It fails closed, and leaves out system
// namespaces and Bursar itself.
func (c *Controller) enforcing(n int, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	name := "enforce"
	if n > 0 {
		name += "-" + strconv.Itoa(n+1)
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:         name + "." + quotav1alpha1.GroupName,
		ClientConfig: c.ClientConfig(EnforcePath),
		Rules:        rules,
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease", c.SystemNamespace},
		}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "not-by-bursar", Expression: "request.userInfo.username != " + strconv.Quote(c.Username),
		}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}
