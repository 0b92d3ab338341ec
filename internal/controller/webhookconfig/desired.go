// Package webhookconfig keeps the webhook configurations in step with the policies, and proves that
// the API server has observed them.
//
// Each configuration carries a probe: a webhook for objects with a label that says which
// content the configuration has. A dry-run create of such an object is refused by the probe's
// handler once the API server works with that content, and by nobody before.
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

// EnforcePath and the others are where the handlers are served. The first three are followed by the version of what was
// declared when they were published: of policies and registrations, and of allocations.
const (
	EnforcePath    = "/enforce"
	AdvisePath     = "/advise"
	QuotaPath      = "/resourcequotas"
	BreakGlassPath = "/break-glass"
	ProbePath      = "/probe"
)

const (
	timeoutSeconds = 5
	// recordingTimeoutSeconds is short, since nothing depends on the answer.
	recordingTimeoutSeconds = 1
	servicePort             = 443
	// allResources stands in a rule for all resources, without subresources.
	allResources = "*"
	// subresourceScale sets the number of an object's replicas, and subresourceResize the resources of
	// a Pod.
	subresourceScale  = "scale"
	subresourceResize = "resize"
)

// breaksGlass is a match condition that holds for requests of the group that is not kept by quota.
// The API server evaluates it, so it holds while Bursar is down.
var breaksGlass = fmt.Sprintf("has(request.userInfo.groups) && %q in request.userInfo.groups", quotav1alpha1.BreakGlassGroup)

// validating is what the validating configuration has to hold.
type validating struct {
	webhooks []admissionregistrationv1.ValidatingWebhook
	// hash is that of the webhooks without the probe, which carries it.
	hash string
	// kinds are those whose creates, and maybe updates, the API server asks about.
	kinds sets.Set[schema.GroupVersionKind]
	// revision is that of the catalog that they were taken from.
	revision int64
}

// desired returns what the validating configuration has to hold.
func (c *Controller) desired(ctx context.Context) validating {
	guarded := c.Catalog.Protected()
	asked := c.rules(ctx, guarded.Triggers)
	version := "/" + guarded.Version.String()
	webhooks := c.Own.Validating()
	for i, r := range asked.enforced {
		webhooks = append(webhooks, c.protectedWebhook(enforceName, i, r, EnforcePath+version, admissionregistrationv1.Fail))
	}
	for i, r := range asked.advised {
		webhooks = append(webhooks, c.protectedWebhook(adviseName, i, r, AdvisePath+version, admissionregistrationv1.Ignore))
	}
	recorded := slices.Concat(slices.Concat(asked.enforced...), slices.Concat(asked.advised...))
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
	return validating{webhooks: append(webhooks, probe), hash: hash, kinds: asked.kinds, revision: guarded.Revision}
}

// desiredMutating returns what the mutating configuration has to hold, and the hash that its
// probe carries. It is the same at every time.
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

// rules are those of each webhook on protected kinds.
type rules [][]admissionregistrationv1.RuleWithOperations

// add puts a rule into the n-th webhook, n being at most their number.
func (r *rules) add(n int, rule admissionregistrationv1.RuleWithOperations) {
	if n == len(*r) {
		*r = append(*r, nil)
	}
	(*r)[n] = append((*r)[n], rule)
}

// webhookRules is what the API server asks about.
type webhookRules struct {
	// enforced are the rules for kinds with a policy that enforces, advised those for the others:
	// whoever only wants to know what would be refused does not want creates to depend on Bursar.
	enforced, advised rules
	kinds             sets.Set[schema.GroupVersionKind]
}

// rules returns the rules of each enforcing webhook, and the kinds that they cover. A webhook is
// called once for a request, with the object in one version, so the versions of one kind go to
// different webhooks.
//
// A kind that is defined but not served now stays covered: it may be served again at any moment.
// Where it cannot be told as which resource a kind is served, its group and version are covered
// as a whole: creates of other kinds take a detour then, and nothing goes unchecked.
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

// ruleFor matches an operation on a resource, and on those of its subresources that are named.
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

// The names of the webhooks on kinds with policies that enforce, on the others, and on ResourceQuotas.
const (
	enforceName = "enforce"
	adviseName  = "advise"
	quotaName   = "resourcequotas"
)

// asking is the n-th webhook of that name on protected kinds. It leaves out system namespaces,
// Bursar itself, and who breaks the glass.
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

// quotaWebhook is the webhook on ResourceQuotas, whoever writes them: Bursar's own are kept within the caps too. It
// is not asked about changes of anything but the spec, nor about what goes with its namespace.
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

// namespaceController is who deletes what is in a namespace that is deleted, which does not wait for Bursar.
const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

// recording is the webhook that is told of requests that break the glass. It refuses nothing, and
// they pass without it.
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
