package validate

import (
	"fmt"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The paths at which the webhooks are served.
const (
	// ValidationPath is that of [Webhooks.Validation].
	ValidationPath = "/validate"
	// MutationPath is that of [Webhooks.Mutation].
	MutationPath = "/finalize"
)

// timeoutSeconds is how long the API server waits for an answer.
const timeoutSeconds = 5

// ClientConfig tells the API server how to reach a path of Bursar's webhook server.
type ClientConfig func(path string) admissionregistrationv1.WebhookClientConfig

// ValidatingWebhooks is what a ValidatingWebhookConfiguration holds for [Webhooks.Validation].
// The API server does not ask it about requests of username, which is Bursar's own: Bursar's
// writes are many, and right by themselves.
func ValidatingWebhooks(client ClientConfig, username string) []admissionregistrationv1.ValidatingWebhook {
	writes := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	all := append(slices.Clone(writes), admissionregistrationv1.Delete)
	updates := []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	return []admissionregistrationv1.ValidatingWebhook{{
		Name:         "validate." + quotav1alpha1.GroupName,
		ClientConfig: client(ValidationPath),
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule(writes, "resourceregistrations", "resourcegrants", "claimcreationpolicies", "grantcreationpolicies", "allowancebuckets"),
			rule(all, "resourceclaims", "consumerledgers"),
			rule(updates, statusOf("resourceregistrations", "resourcegrants", "resourceclaims", "allowancebuckets",
				"claimcreationpolicies", "grantcreationpolicies", "consumerledgers")...),
		},
		MatchConditions:         []admissionregistrationv1.MatchCondition{notBy(username)},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}}
}

// MutatingWebhooks is what a MutatingWebhookConfiguration holds for [Webhooks.Mutation]. The API
// server asks it neither about requests of username, which is Bursar's own, nor about claims
// that have the finalizer.
func MutatingWebhooks(client ClientConfig, username string) []admissionregistrationv1.MutatingWebhook {
	creates := []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	return []admissionregistrationv1.MutatingWebhook{{
		Name:                    "finalize." + quotav1alpha1.GroupName,
		ClientConfig:            client(MutationPath),
		Rules:                   []admissionregistrationv1.RuleWithOperations{rule(creates, "resourceclaims")},
		MatchConditions:         []admissionregistrationv1.MatchCondition{notBy(username), withoutFinalizer()},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}}
}

// statusOf names the status of each resource as rules do.
func statusOf(resources ...string) []string {
	for i := range resources {
		resources[i] += "/" + subresourceStatus
	}
	return resources
}

// rule matches operations on resources of the group, and on those of their subresources that are
// named.
func rule(operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{quotav1alpha1.GroupName},
			APIVersions: []string{quotav1alpha1.GroupVersion.Version},
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

func withoutFinalizer() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name: "without-finalizer",
		Expression: fmt.Sprintf("!has(object.metadata.finalizers) || !(%q in object.metadata.finalizers)",
			quotav1alpha1.FinalizerQuotaRelease),
	}
}
