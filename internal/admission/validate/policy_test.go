package validate_test

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

const (
	isQuestion = `spec.trigger.resource: Forbidden: the API server answers objects of this API group and does not store them`
	isEvent    = `spec.trigger.resource: Forbidden: events must be recorded regardless of quota`
	isOwn      = `spec.trigger.resource: Forbidden: Bursar's own kinds cannot be subject to its policies`
	isLease    = `spec.trigger.resource: Forbidden: leases keep the control plane alive and must not depend on quota`
)

func TestClaimPolicy(t *testing.T) {
	type policy = quotav1alpha1.ClaimCreationPolicy
	trigger := func(apiVersion, kind string) func(*policy) {
		return func(p *policy) {
			p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: apiVersion, Kind: kind}
		}
	}
	checkRules(t, sampleClaimPolicy, validate.ClaimPolicy, map[string]ruleCase[policy]{
		"Sample":        {reason: "a complete policy is valid", change: asIs[policy]},
		"CoreKind":      {reason: "core kinds can be counted", change: trigger("v1", "ConfigMap")},
		"OwnKind":       {reason: "claims for claims would never end", change: trigger("quota.miloapis.com/v1alpha1", "ResourceClaim"), want: []string{isOwn}},
		"OwnOldVersion": {reason: "in whatever version", change: trigger("quota.miloapis.com/v9", "ResourceGrant"), want: []string{isOwn}},
		"Lease":         {reason: "leader election must not fail", change: trigger("coordination.k8s.io/v1", "Lease"), want: []string{isLease}},
		"AccessReview":  {reason: "a question is no object", change: trigger("authorization.k8s.io/v1", "SubjectAccessReview"), want: []string{isQuestion}},
		"TokenReview":   {reason: "a question is no object", change: trigger("authentication.k8s.io/v1", "TokenReview"), want: []string{isQuestion}},
		"Admission":     {reason: "a question is no object", change: trigger("admission.k8s.io/v1", "AdmissionReview"), want: []string{isQuestion}},
		"CoreEvent":     {reason: "denials are events themselves", change: trigger("v1", "Event"), want: []string{isEvent}},
		"Event":         {reason: "denials are events themselves", change: trigger("events.k8s.io/v1", "Event"), want: []string{isEvent}},
		"OtherEvent":    {reason: "other groups may call their kinds so", change: trigger("example.com/v1", "Event")},
		"Webhooks": {
			reason: "the policy would seem to be enforced and not be",
			change: trigger("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
			want: []string{`spec.trigger.resource: Forbidden: the API server asks no webhook about kinds of this API group, ` +
				`so quota cannot be enforced`},
		},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once, also what does not compile",
			change: func(p *policy) {
				trigger("Apps", "")(p)
				p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{}}
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 0
			},
			want: []string{
				`spec.trigger.resource.apiVersion: Invalid value: "Apps": must be an API group and version, such as apps/v1, or v1 for the core group`,
				`spec.trigger.resource.kind: Required value: name the kind of the object, such as Project`,
				`spec.trigger.conditions[0].expression: Required value: a condition needs a CEL expression`,
				`spec.target.resourceClaimTemplate.spec.requests[0].amount: Invalid value: 0: must be greater than 0`,
			},
		},
		"Changed": {
			reason: "a changed policy is judged like a new one",
			before: asIs[policy],
			change: trigger("v1", "Event"),
			want:   []string{isEvent},
		},
		"Unchanged": {
			reason: "a policy from before a rule was made can be let go",
			before: trigger("v1", "Event"),
			change: func(p *policy) { p.Finalizers = nil },
		},
		"Disabled": {
			reason: "a policy that is off can be turned on at any time",
			change: func(p *policy) { p.Spec.Enabled = new(false); trigger("v1", "Event")(p) },
			want:   []string{isEvent},
		},
	})
}

func TestGrantPolicy(t *testing.T) {
	type policy = quotav1alpha1.GrantCreationPolicy
	conditions := func(count int, expression string) func(*policy) {
		return func(p *policy) {
			p.Spec.Trigger.Conditions = nil
			for range count {
				p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: expression})
			}
		}
	}
	checkRules(t, sampleGrantPolicy, validate.GrantPolicy, map[string]ruleCase[policy]{
		"Sample":         {reason: "a complete policy is valid", change: asIs[policy]},
		"MostConditions": {reason: "10 conditions are allowed", change: conditions(10, "1 == 1")},
		"Threshold": {
			reason: "a threshold that no grant may have would keep grants from being made",
			change: func(p *policy) {
				p.Spec.Target.ResourceGrantTemplate.Metadata.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "80%"}
			},
			want: []string{`spec.target.resourceGrantTemplate.metadata.annotations[quota.miloapis.com/alert-threshold-percent]: Invalid value: "80%": must be a whole number of percent from 1 to 100, such as 80`},
		},
		"ThresholdTemplate": {
			reason: "what a template makes is judged when it does",
			change: func(p *policy) {
				p.Spec.Target.ResourceGrantTemplate.Metadata.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: `{{.trigger.metadata.name}}`}
			},
		},
		"OwnKind": {
			reason: "grants for grants would never end",
			change: func(p *policy) {
				p.Spec.Trigger.Resource = quotav1alpha1.GrantTriggerResource{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceGrant"}
			},
			want: []string{isOwn},
		},
		"TooManyConditions": {
			reason: "11 are not",
			change: conditions(11, "1 == 1"),
			want:   []string{`spec.trigger.conditions: Too many: 11: must have at most 10 items`},
		},
		"Conditions": {
			reason: "what does not compile is told with its position",
			change: func(p *policy) {
				p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{
					{Expression: ""}, {Expression: strings.Repeat("x", 1025)}, {Expression: "user.name"},
				}
				p.Spec.Target.ResourceGrantTemplate.Metadata.Name = "{{.trigger.metadata.name"
			},
			want: []string{
				`spec.trigger.conditions[0].expression: Required value: a condition needs a CEL expression`,
				`spec.trigger.conditions[1].expression: Too long: may not be more than 1024 characters`,
				`spec.trigger.conditions[2].expression: Invalid value: "user.name": 1:1: a GrantCreationPolicy does not see user here: it applies to an object, and sees trigger and object`,
				`spec.target.resourceGrantTemplate.metadata.name: Invalid value: "{{.trigger.metadata.name": line 1: unclosed action`,
			},
		},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(p *policy) {
				p.Spec.Trigger.Resource.APIVersion = ""
				p.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{NameExpression: strings.Repeat("x", 513)}
				p.Spec.Target.ResourceGrantTemplate.Spec = quotav1alpha1.ResourceGrantSpec{
					Allowances:  []quotav1alpha1.Allowance{allowance("type", -1)},
					ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "{{ .trigger.kind }}", Namespace: "{{.trigger.metadata.namespace}}"},
				}
			},
			want: []string{
				`spec.trigger.resource.apiVersion: Invalid value: "": must be an API group and version, such as apps/v1, or v1 for the core group`,
				`spec.target.parentContext.kind: Required value: name the kind of the object, such as Project`,
				`spec.target.resourceGrantTemplate.spec.allowances[0].buckets[0].amount: Invalid value: -1: must be greater than or equal to 0`,
				`spec.target.parentContext.nameExpression: Too long: may not be more than 512 characters`,
				`spec.target.resourceGrantTemplate.spec.consumerRef.name: Required value: nothing can be made without it`,
			},
		},
		"Unchanged": {
			reason: "a policy from before a rule was made can be let go",
			before: conditions(1, ""),
			change: func(p *policy) { p.Finalizers = nil },
		},
	})
}
