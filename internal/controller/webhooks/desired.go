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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	probeLabel     = quotav1alpha1.GroupName + "/probe"
)

// desired returns the validating webhooks for the given kinds, and the hash of their content.
func (c *Controller) desired(ctx context.Context) (webhooks []admissionregistrationv1.ValidatingWebhook, kinds map[schema.GroupVersionKind]bool, hash string, err error) {
	webhooks = slices.Clone(c.Static)
	rules, kinds, err := c.rules(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	for i, r := range rules {
		webhooks = append(webhooks, c.enforcing(i, r))
	}
	content, err := json.Marshal(webhooks)
	if err != nil {
		return nil, nil, "", fmt.Errorf("encode the webhooks: %w", err)
	}
	digest := sha256.Sum256(content)
	hash = hex.EncodeToString(digest[:16])
	return append(webhooks, c.probe(hash)), kinds, hash, nil
}

// rules returns the rules of each enforcing webhook. A webhook is called once for a request,
// with the object in one version, so the versions of one kind go to different webhooks.
func (c *Controller) rules(ctx context.Context) ([][]admissionregistrationv1.RuleWithOperations, map[schema.GroupVersionKind]bool, error) {
	triggers := c.Catalog.Triggers()
	slices.SortFunc(triggers, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	var rules [][]admissionregistrationv1.RuleWithOperations
	kinds := map[schema.GroupVersionKind]bool{}
	versions := map[schema.GroupKind]int{}
	for _, trigger := range triggers {
		resource, served, err := c.Kinds.VersionedResourceFor(ctx, trigger)
		if err != nil {
			return nil, nil, err
		}
		if !served {
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
	return rules, kinds, nil
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

// probe is a webhook that matches nothing but probes for the given content.
func (c *Controller) probe(hash string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:         "probe." + quotav1alpha1.GroupName,
		ClientConfig: c.ClientConfig(ProbePath),
		Rules:        []admissionregistrationv1.RuleWithOperations{creates(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})},
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.SystemNamespace},
		},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{probeLabel: hash}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Exact),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}
