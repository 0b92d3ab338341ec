package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The paths of the webhooks.
const (
	// ValidationPath is the path of [Webhooks.Validation].
	ValidationPath = "/validate"
	// MutationPath is the path of [Webhooks.Mutation].
	MutationPath = "/finalize"
	// StampPath is the path of [Webhooks.Stamp].
	StampPath = "/stamp"
	// GrantStampPath is the path of [Webhooks.StampGrant].
	GrantStampPath = "/stamp/grants"
	// ConsumerTypePath is the path of [Webhooks.ConsumerType].
	ConsumerTypePath = "/stamp/consumertype"
	// QuotaReviewPath is the path of the webhook for QuotaReviews, see package quotareview.
	QuotaReviewPath = "/quotareview"
	// QuotaHistoryPath is the path of the webhook for QuotaHistories, see package quotahistory.
	QuotaHistoryPath = "/quotahistory"
	// QuotaUsagePath is the path of the webhook for QuotaUsages, see package quotausage.
	QuotaUsagePath = "/quotausage"
)

const (
	// timeoutSeconds is how long the API server waits for an answer. Handlers answer earlier, see [review.Timeout].
	timeoutSeconds = 6
	// questionTimeoutSeconds is longer, because a question may be large: the API server takes time to send it, too.
	questionTimeoutSeconds = 10
)

// ClientConfig returns the configuration for the API server's calls of a path of Bursar's webhook server.
type ClientConfig func(path string) admissionregistrationv1.WebhookClientConfig

// Server serves the webhooks.
type Server interface {
	// ClientConfig returns the API server's configuration for calls of a path.
	ClientConfig(path string) admissionregistrationv1.WebhookClientConfig
}

// OwnKinds builds the webhooks for Bursar's own kinds.
type OwnKinds struct {
	Server                    Server
	Username, SystemNamespace string
	// Except are the resources that Bursar does not serve.
	Except []schema.GroupResource
}

// Validating returns [ValidatingWebhooks].
func (k OwnKinds) Validating() []admissionregistrationv1.ValidatingWebhook {
	webhooks := ValidatingWebhooks(k.Server.ClientConfig, k.Username, k.SystemNamespace)
	if slices.Contains(k.Except, openmcpv1alpha1.Resource("quotaserviceconfigs")) {
		webhooks = slices.DeleteFunc(webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == generatedQuotasName })
	}
	for i := range webhooks {
		webhooks[i].Rules = k.served(webhooks[i].Rules)
	}
	return webhooks
}

// served returns rules without the resources that Bursar does not serve, and their subresources.
func (k OwnKinds) served(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	var served []admissionregistrationv1.RuleWithOperations
	for _, r := range rules {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool {
			resource, _, _ := strings.Cut(name, "/")
			return slices.Contains(k.Except, schema.GroupResource{Group: r.APIGroups[0], Resource: resource})
		})
		if len(r.Resources) > 0 {
			served = append(served, r)
		}
	}
	return served
}

// generatedQuotasName is the name of the webhook for generated ResourceQuotas.
const generatedQuotasName = generatedQuotasPrefix + "." + quotav1alpha1.GroupName

const generatedQuotasPrefix = "generatedquotas"

// Mutating returns [MutatingWebhooks].
func (k OwnKinds) Mutating() []admissionregistrationv1.MutatingWebhook {
	return MutatingWebhooks(k.Server.ClientConfig, k.Username)
}

// ValidatingWebhooks returns the webhooks of the ValidatingWebhookConfiguration for [Webhooks.Validation]. They
// exclude requests of username, Bursar's own user: its writes are many, and valid by construction. Of all namespaces,
// they review only the deletion of systemNamespace, so no other namespace depends on Bursar.
func ValidatingWebhooks(client ClientConfig, username, systemNamespace string) []admissionregistrationv1.ValidatingWebhook {
	writes := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	creates := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	updates := []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	deletes := []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	all := slices.Concat(writes, deletes)
	ownKinds := validating("validate", client, username,
		rule(writes, "resourcegrants", "claimcreationpolicies", "grantcreationpolicies", "quotarequests", "quotarequestpolicies", "allowancebuckets", "effectiveresourcegrants",
			"resourcequotaallocations", "localresourcequotaallocations", "allocationledgers", "quotaalerts"),
		rule(creates, "quotadecisions"),
		rule(all, "resourceregistrations", "resourceclaims", "consumerledgers"),
		rule(updates, statusOf("resourceregistrations", "resourcegrants", "resourceclaims", "allowancebuckets", "effectiveresourcegrants",
			"claimcreationpolicies", "grantcreationpolicies", "consumerledgers", "resourcequotaallocations", "allocationledgers", "quotarequests")...),
		ruleOf(openmcpv1alpha1.GroupVersion, writes, "quotaincreases", "quotaserviceconfigs"),
		ruleOf(openmcpv1alpha1.GroupVersion, updates, statusOf("quotaincreases", "quotaserviceconfigs")...),
	)
	namespace := validating("namespace", client, username, ruleOf(corev1.SchemeGroupVersion, deletes, "namespaces"))
	namespace.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: systemNamespace}}
	// It only warns, so the deletion of a policy or grant must not wait for Bursar.
	policies := validating("warn", client, username, rule(deletes, "claimcreationpolicies", "grantcreationpolicies", "resourcegrants"))
	policies.FailurePolicy = new(admissionregistrationv1.Ignore)
	policies.SideEffects = new(admissionregistrationv1.SideEffectClassNoneOnDryRun) // it marks grants, see [Deletions]
	return []admissionregistrationv1.ValidatingWebhook{ownKinds, namespace, generatedQuotas(client, username), policies}
}

// generatedQuotas is the webhook for ResourceQuotas made from a definition. Without its answer an edit passes, and
// the controller reverts it. It also reverts edits by users with a right to change the definition.
func generatedQuotas(client ClientConfig, username string) admissionregistrationv1.ValidatingWebhook {
	w := validating(generatedQuotasPrefix, client, username,
		ruleOf(corev1.SchemeGroupVersion, []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, string(corev1.ResourceQuotas)))
	w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: openmcpv1alpha1.LabelManagedBy, Operator: metav1.LabelSelectorOpExists},
		{Key: openmcpv1alpha1.LabelDefinition, Operator: metav1.LabelSelectorOpExists},
	}}
	w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{
		Name: "spec-or-maker-changed", Expression: fmt.Sprintf("!has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec || "+
			"!has(oldObject.metadata.labels) || !(%q in oldObject.metadata.labels) || !(%q in oldObject.metadata.labels)", openmcpv1alpha1.LabelManagedBy, openmcpv1alpha1.LabelDefinition),
	})
	w.FailurePolicy = new(admissionregistrationv1.Ignore)
	return w
}

// validating returns a webhook that fails closed.
func validating(name string, client ClientConfig, username string, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    name + "." + quotav1alpha1.GroupName,
		ClientConfig:            client(ValidationPath),
		Rules:                   rules,
		MatchConditions:         []admissionregistrationv1.MatchCondition{notBy(username)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// MutatingWebhooks returns the webhooks of the MutatingWebhookConfiguration: for [Webhooks.Mutation] and
// [Webhooks.Stamp], without the requests of username, Bursar's own user, for [Webhooks.ConsumerType], and for
// QuotaReviews, QuotaHistories and QuotaUsages.
func MutatingWebhooks(client ClientConfig, username string) []admissionregistrationv1.MutatingWebhook {
	writes := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	creates := writes[:1]
	finalize := mutating("finalize", client(MutationPath), rule(writes, "resourceclaims"))
	finalize.MatchConditions = []admissionregistrationv1.MatchCondition{notBy(username)}
	finalize.ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
	// During an update a replica of an earlier version does not know the path. Then the grant names nobody: see
	// checkChangedBy.
	grants := mutating("grants", client(GrantStampPath), rule(writes, "resourcegrants"))
	grants.FailurePolicy = new(admissionregistrationv1.Ignore)
	grants.MatchConditions = []admissionregistrationv1.MatchCondition{notBy(username)}
	// Without an answer the registration controller fills in the other name.
	consumerType := mutating("consumertype", client(ConsumerTypePath), rule(writes, "resourceregistrations"))
	consumerType.FailurePolicy = new(admissionregistrationv1.Ignore)
	consumerType.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "one-name", Expression: "has(object.spec.consumerType) != has(object.spec.consumerTypeRef)",
	}}
	// A restored request keeps its requester.
	stamp := mutating("stamp", client(StampPath), rule(writes, "quotarequests"), rule(creates, "quotadecisions"))
	stamp.MatchConditions = []admissionregistrationv1.MatchCondition{notBy(username)}
	return []admissionregistrationv1.MutatingWebhook{
		finalize,
		question("quotareview", client(QuotaReviewPath), rule(creates, "quotareviews")),
		question("quotahistory", client(QuotaHistoryPath), rule(creates, "quotahistories")),
		question("quotausage", client(QuotaUsagePath), rule(creates, "quotausages")),
		stamp,
		grants,
		consumerType,
	}
}

// mutating returns a webhook that fails closed. It has every field that the API server would otherwise set, because
// the leader writes each configuration that differs from the stored one.
func mutating(name string, client admissionregistrationv1.WebhookClientConfig, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name + "." + quotav1alpha1.GroupName,
		ClientConfig:            client,
		Rules:                   rules,
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		ReinvocationPolicy:      new(admissionregistrationv1.NeverReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// question returns a webhook for questions, which nothing else waits for.
func question(name string, client admissionregistrationv1.WebhookClientConfig, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
	w := mutating(name, client, rules...)
	w.TimeoutSeconds = new(int32(questionTimeoutSeconds))
	return w
}

// statusOf returns the status subresources of resources, as rules name them.
func statusOf(resources ...string) []string {
	for i := range resources {
		resources[i] += "/" + subresourceStatus
	}
	return resources
}

// rule matches operations on resources of Bursar's group, and on the named subresources.
func rule(operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
	return ruleOf(quotav1alpha1.GroupVersion, operations, resources...)
}

func ruleOf(version schema.GroupVersion, operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{version.Group},
			APIVersions: []string{version.Version},
			Resources:   resources,
			Scope:       new(admissionregistrationv1.AllScopes),
		},
	}
}

func notBy(username string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name:       "not-by-bursar",
		Expression: "request.userInfo.username != " + strconv.QuoteToASCII(username),
	}
}
