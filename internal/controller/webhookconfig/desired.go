// Package webhookconfig reconciles the webhook configurations with the policies, and proves that the API server has
// observed them.
//
// Each configuration carries a probe: a webhook for objects with a label for the content of the configuration. Once the
// API server uses this content, the probe's handler denies a dry-run create of such an object. Until then nothing does.
//
// Only the operator and tests import it.
package webhookconfig

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/namespaces"
)

// EnforcePath and the others are the paths of the handlers. The first three end with the version of the declarations at
// their publication: of policies and registrations, or of allocations.
const (
	EnforcePath    = "/enforce"
	AdvisePath     = "/advise"
	QuotaPath      = "/resourcequotas"
	BreakGlassPath = "/break-glass"
	ProbePath      = "/probe"
)

const (
	// timeoutSeconds is how long the API server waits for an answer. Handlers answer earlier, see [review.Timeout].
	timeoutSeconds = 6
	// recordingTimeoutSeconds is short, because nothing depends on the answer.
	recordingTimeoutSeconds = 2
	servicePort             = 443
	// allResources means all resources in a rule, without subresources.
	allResources = "*"
	// subresourceScale sets the number of an object's replicas, and subresourceResize the resources of a Pod.
	subresourceScale  = "scale"
	subresourceResize = "resize"
)

// breaksGlass is a match condition for requests of the break-glass group: they bypass quota. The API server evaluates
// it, so it holds while Bursar is down.
var breaksGlass = fmt.Sprintf("has(request.userInfo.groups) && %q in request.userInfo.groups", quotav1alpha1.BreakGlassGroup)

// validating is the content of the validating configuration.
type validating struct {
	webhooks []admissionregistrationv1.ValidatingWebhook
	// hash is the hash of the webhooks without the probe. The probe carries it.
	hash string
	// kinds are the kinds whose creates, and maybe updates, the API server sends.
	kinds sets.Set[schema.GroupVersionKind]
	// revision is the revision of the catalog behind the content.
	revision int64
}

// desired returns the content of the validating configuration.
func (c *Controller) desired(ctx context.Context) validating {
	guarded := c.Catalog.Protected()
	required := c.rules(ctx, guarded.Triggers)
	version := "/" + guarded.Version.String()
	webhooks := c.Own.Validating()
	for i, r := range required.enforced {
		webhooks = append(webhooks, c.protectedWebhook(enforceName, i, r, EnforcePath+version, admissionregistrationv1.Fail))
	}
	for i, r := range required.advised {
		webhooks = append(webhooks, c.protectedWebhook(adviseName, i, r, AdvisePath+version, admissionregistrationv1.Ignore))
	}
	recorded := slices.Concat(slices.Concat(required.enforced...), slices.Concat(required.advised...))
	if guarded.Allocations != 0 {
		quotas := c.quotaWebhook(QuotaPath + "/" + guarded.Allocations.String())
		webhooks = append(webhooks, quotas)
		recorded = append(recorded, quotas.Rules...)
	}
	if len(recorded) > 0 {
		webhooks = append(webhooks, c.breakGlassWebhook(recorded))
	}
	for i := range webhooks {
		completeValidating(&webhooks[i])
	}
	hash := hashOf("validating", webhooks)
	probe := c.probe(hash)
	completeValidating(&probe)
	return validating{webhooks: append(webhooks, probe), hash: hash, kinds: required.kinds, revision: guarded.Revision}
}

// desiredMutating returns the content of the mutating configuration, and the hash in its probe. It is constant.
func (c *Controller) desiredMutating() (webhooks []admissionregistrationv1.MutatingWebhook, hash string) {
	webhooks = c.Own.Mutating()
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

// rules are the rules of each webhook on protected kinds.
type rules [][]admissionregistrationv1.RuleWithOperations

// add adds a rule to the n-th webhook. n is at most their number.
func (r *rules) add(n int, rule admissionregistrationv1.RuleWithOperations) {
	if n == len(*r) {
		*r = append(*r, nil)
	}
	(*r)[n] = append((*r)[n], rule)
}

// webhookRules are the rules of the protected kinds.
type webhookRules struct {
	// enforced are the rules for kinds with an enforcing policy, advised those for the others: an advisory policy must
	// not make creates depend on Bursar.
	enforced, advised rules
	kinds             sets.Set[schema.GroupVersionKind]
}

// rules returns the rules of each enforcing webhook, and their kinds. The API server calls a webhook once for a
// request, with the object in one version, so the versions of one kind go to different webhooks.
//
// The rules still cover a defined but unserved kind, because the API server may serve it again at any moment. If the
// resource of a kind is unknown, they cover its whole group and version. Then creates of other kinds take a detour, and
// every protected create gets its review.
func (c *Controller) rules(ctx context.Context, triggers []catalog.Trigger) webhookRules {
	a := webhookRules{kinds: sets.New[schema.GroupVersionKind]()}
	enforced, advised := map[schema.GroupKind]int{}, map[schema.GroupKind]int{}
	for _, trigger := range triggers {
		resource, defined, err := c.Kinds.DefinedResourceFor(ctx, trigger.GroupVersionKind)
		if err != nil {
			resource, defined = trigger.GroupVersion().WithResource(allResources), true
		}
		if !defined {
			continue
		}
		a.kinds.Insert(trigger.GroupVersionKind)
		into, versions := &a.advised, advised
		if trigger.Enforced {
			into, versions = &a.enforced, enforced
		}
		n := versions[trigger.GroupKind()]
		versions[trigger.GroupKind()]++
		into.add(n, ruleFor(resource, admissionregistrationv1.Create))
		if trigger.Updates {
			into.add(n, ruleFor(resource, admissionregistrationv1.Update, subresourceScale, subresourceResize))
		}
	}
	return a
}

// ruleFor matches an operation on a resource and on the given subresources.
func ruleFor(resource schema.GroupVersionResource, operation admissionregistrationv1.OperationType, subresources ...string) admissionregistrationv1.RuleWithOperations {
	resources := []string{resource.Resource}
	for _, subresource := range subresources {
		resources = append(resources, resource.Resource+"/"+subresource)
	}
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{resource.Group},
			APIVersions: []string{resource.Version},
			Resources:   resources,
			Scope:       new(admissionregistrationv1.AllScopes),
		},
	}
}

// The names of the webhooks on kinds with enforcing policies, on other kinds, and on ResourceQuotas.
const (
	enforceName = "enforce"
	adviseName  = "advise"
	quotaName   = "resourcequotas"
)

// protectedWebhook returns the n-th webhook of a name on protected kinds. It excludes system namespaces, Bursar itself,
// and break-glass requests.
func (c *Controller) protectedWebhook(name string, n int, rules []admissionregistrationv1.RuleWithOperations, path string, failure admissionregistrationv1.FailurePolicyType) admissionregistrationv1.ValidatingWebhook {
	if n > 0 {
		name += "-" + strconv.Itoa(n+1)
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:         name + "." + quotav1alpha1.GroupName,
		ClientConfig: c.Server.ClientConfig(path),
		Rules:        rules,
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
			Values: namespaces.Exempt(c.SystemNamespace),
		}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			c.notByBursar(), {Name: "glass-not-broken", Expression: "!(" + breaksGlass + ")"},
		},
		FailurePolicy:           new(failure),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// quotaWebhook returns the webhook on ResourceQuotas of every author: Bursar's own stay within the caps too. It
// excludes changes outside the spec, and the deletions of a namespace's content.
func (c *Controller) quotaWebhook(path string) admissionregistrationv1.ValidatingWebhook {
	resource := corev1.SchemeGroupVersion.WithResource(string(corev1.ResourceQuotas))
	w := c.protectedWebhook(quotaName, 0, []admissionregistrationv1.RuleWithOperations{
		ruleFor(resource, admissionregistrationv1.Create), ruleFor(resource, admissionregistrationv1.Update), ruleFor(resource, admissionregistrationv1.Delete),
	}, path, admissionregistrationv1.Fail)
	w.MatchConditions = []admissionregistrationv1.MatchCondition{
		{Name: "spec-changed", Expression: "oldObject == null || object == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"},
		{Name: "namespace-stays", Expression: "request.operation != 'DELETE' || request.userInfo.username != " + strconv.Quote(namespaceController)},
		{Name: "glass-not-broken", Expression: "!(" + breaksGlass + ")"},
	}
	return w
}

// namespaceController is the user behind the deletion of a deleted namespace's content. It does not wait for Bursar.
const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

// breakGlassWebhook returns the webhook to record break-glass requests. It denies nothing, and they pass without it.
func (c *Controller) breakGlassWebhook(rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	w := c.protectedWebhook("break-glass", 0, rules, BreakGlassPath, admissionregistrationv1.Ignore)
	w.MatchConditions = []admissionregistrationv1.MatchCondition{
		c.notByBursar(), {Name: "glass-broken", Expression: breaksGlass},
	}
	w.TimeoutSeconds = new(int32(recordingTimeoutSeconds))
	return w
}

func (c *Controller) notByBursar() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name: "not-by-bursar", Expression: "request.userInfo.username != " + strconv.Quote(c.Username),
	}
}
