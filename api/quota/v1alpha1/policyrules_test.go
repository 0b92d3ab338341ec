package v1alpha1_test

import (
	"maps"
	"testing"

	"github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestClaimCreationPolicyRules(t *testing.T) {
	type policy = v1alpha1.ClaimCreationPolicy
	setRequests := func(p *policy, requests []v1alpha1.ResourceRequest) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = requestTemplates(requests)
	}
	cases := requestCases(setRequests, "spec.target.resourceClaimTemplate.spec.requests")
	// Without an amount there has to be an expression, and values of dimensions may be templates.
	delete(cases, "ZeroAmount")
	delete(cases, "TooLongDimension")
	request := func(r v1alpha1.ResourceRequestTemplate) func(*policy) {
		return func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []v1alpha1.ResourceRequestTemplate{r}
		}
	}
	cases["AmountExpression"] = ruleCase[policy]{
		reason: "an amount may follow the object",
		change: request(v1alpha1.ResourceRequestTemplate{ResourceType: "type", AmountExpression: "object.spec.replicas"}),
	}
	cases["TwoAmounts"] = ruleCase[policy]{
		reason: "there is one amount",
		change: request(v1alpha1.ResourceRequestTemplate{ResourceType: "type", Amount: 1, AmountExpression: "object.spec.replicas"}),
		want:   []string{"give either amount or amountExpression"},
	}
	cases["NoAmount"] = ruleCase[policy]{
		reason: "there is an amount",
		change: request(v1alpha1.ResourceRequestTemplate{ResourceType: "type"}),
		want:   []string{"give either amount or amountExpression"},
	}
	cases["OnlyUpdates"] = ruleCase[policy]{
		reason: "what is not counted when it is created cannot be followed",
		change: func(p *policy) {
			p.Spec.Trigger.Operations = []v1alpha1.TriggerOperation{v1alpha1.TriggerOperationUpdate}
		},
		want: []string{"operations must have CREATE"},
	}
	cases["Updates"] = ruleCase[policy]{
		reason: "a policy may follow updates",
		change: func(p *policy) {
			p.Spec.Trigger.Operations = []v1alpha1.TriggerOperation{v1alpha1.TriggerOperationCreate, v1alpha1.TriggerOperationUpdate}
		},
	}
	cases["EnforcementMode"] = ruleCase[policy]{
		reason: "a policy may only warn",
		change: func(p *policy) { p.Spec.EnforcementMode = v1alpha1.EnforcementModeWarn },
	}
	cases["OtherEnforcementMode"] = ruleCase[policy]{
		reason: "there are three modes",
		change: func(p *policy) { p.Spec.EnforcementMode = "Dryrun" },
		want:   []string{"spec.enforcementMode"},
	}
	cases["NoClaims"] = ruleCase[policy]{
		reason: "a policy may count the objects themselves",
		change: func(p *policy) { p.Spec.Claims = v1alpha1.ClaimsModeNone },
	}
	cases["OtherClaims"] = ruleCase[policy]{
		reason: "charges are in claims or nowhere",
		change: func(p *policy) { p.Spec.Claims = "Views" },
		want:   []string{"spec.claims"},
	}
	cases["Sample"] = ruleCase[policy]{
		reason: "strings in templates may hold Go templates, and resourceRef may be absent",
		change: func(p *policy) {},
	}
	cases["ResourceRef"] = ruleCase[policy]{
		reason: "resourceRef may be given, as the contract has it",
		change: func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ResourceRef = &v1alpha1.UnversionedObjectReference{
				APIGroup: "{{.trigger.group}}", Kind: "Project", Name: "{{.trigger.metadata.name}}",
			}
		},
	}
	cases["UnknownReason"] = ruleCase[policy]{
		reason: "the contract sets no bound to a policy's reasons",
		change: func(p *policy) { p.Status.Conditions = condition(v1alpha1.ConditionReady, "CertainlyNot") },
	}
	maps.Copy(cases, apiVersionCases(func(p *policy, apiVersion string) { p.Spec.Trigger.Resource.APIVersion = apiVersion }))
	maps.Copy(cases, conditionCases(func(p *policy, conditions []v1alpha1.ConditionExpression) { p.Spec.Trigger.Conditions = conditions }))
	checkRules(t, "ClaimCreationPolicy", sampleClaimPolicy, cases)
}

func TestGrantCreationPolicyRules(t *testing.T) {
	type policy = v1alpha1.GrantCreationPolicy
	const allowancesPath = "spec.target.resourceGrantTemplate.spec.allowances"
	cases := map[string]ruleCase[policy]{
		"Sample": {
			reason: "strings in templates may hold Go templates",
			change: func(p *policy) {},
		},
		"MostAllowances": {
			reason: "20 allowances are accepted",
			change: func(p *policy) { p.Spec.Target.ResourceGrantTemplate.Spec.Allowances = allowances(20) },
		},
		"TooManyAllowances": {
			reason: "21 allowances are not",
			change: func(p *policy) { p.Spec.Target.ResourceGrantTemplate.Spec.Allowances = allowances(21) },
			want:   []string{allowancesPath, "at most 20 items"},
		},
		"ParentContext": {
			reason: "a parent context names its object by an expression",
			change: func(p *policy) {
				p.Spec.Target.ParentContext = &v1alpha1.ParentContext{
					APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", NameExpression: "object.spec.parent",
				}
			},
		},
		"ParentContextWithoutName": {
			reason: "an empty expression names nothing",
			change: func(p *policy) {
				p.Spec.Target.ParentContext = &v1alpha1.ParentContext{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization"}
			},
			want: []string{"spec.target.parentContext.nameExpression"},
		},
	}
	maps.Copy(cases, apiVersionCases(func(p *policy, apiVersion string) { p.Spec.Trigger.Resource.APIVersion = apiVersion }))
	maps.Copy(cases, conditionCases(func(p *policy, conditions []v1alpha1.ConditionExpression) { p.Spec.Trigger.Conditions = conditions }))
	checkRules(t, "GrantCreationPolicy", sampleGrantPolicy, cases)
}

// apiVersionCases are the rules for the trigger of a policy.
func apiVersionCases[T any](set func(*T, string)) map[string]ruleCase[T] {
	with := func(apiVersion string) func(*T) { return func(object *T) { set(object, apiVersion) } }
	const path = "spec.trigger.resource.apiVersion"
	return map[string]ruleCase[T]{
		"CoreKind":        {reason: "core kinds trigger policies too", change: with("v1")},
		"ShortGroup":      {reason: "a group may be a single label", change: with("apps/v1")},
		"BetaVersion":     {reason: "a version may be a beta", change: with("example.com/v2beta1")},
		"NoVersion":       {reason: "a group alone is no API version", change: with("example.com"), want: []string{path}},
		"UppercaseGroup":  {reason: "groups are in lower case", change: with("Example.com/v1"), want: []string{path}},
		"EmptyAPIVersion": {reason: "an API version is needed", change: with(""), want: []string{path}},
	}
}

// conditionCases are the rules for a policy's conditions.
func conditionCases[T any](set func(*T, []v1alpha1.ConditionExpression)) map[string]ruleCase[T] {
	with := func(n int, expression string) func(*T) {
		return func(object *T) {
			conditions := make([]v1alpha1.ConditionExpression, n)
			for i := range conditions {
				conditions[i].Expression = expression
			}
			set(object, conditions)
		}
	}
	return map[string]ruleCase[T]{
		"MostConditions":    {reason: "10 conditions are accepted", change: with(10, "true")},
		"TooManyConditions": {reason: "11 conditions are not", change: with(11, "true"), want: []string{"spec.trigger.conditions"}},
		"EmptyCondition":    {reason: "a condition says something", change: with(1, ""), want: []string{"spec.trigger.conditions[0].expression"}},
	}
}
