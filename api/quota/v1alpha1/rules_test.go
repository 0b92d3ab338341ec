package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestResourceRegistrationRules(t *testing.T) {
	type registration = v1alpha1.ResourceRegistration
	cases := map[string]ruleCase[registration]{
		"Sample": {
			reason: "a complete registration is valid",
			change: func(r *registration) {},
		},
		"LongDescription": {
			reason: "a description may have 500 characters",
			change: func(r *registration) { r.Spec.Description = strings.Repeat("d", 500) },
		},
		"TooLongDescription": {
			reason: "a description may have no more than 500 characters",
			change: func(r *registration) { r.Spec.Description = strings.Repeat("d", 501) },
			want:   []string{"spec.description"},
		},
		"MutableFields": {
			reason: "description, claimingResources and units may change; whether amounts are stored is not for the schema",
			update: true,
			change: func(r *registration) {
				r.Spec.BaseUnit, r.Spec.DisplayUnit, r.Spec.UnitConversionFactor = "bit", "GB", 1
				r.Spec.Description = ""
				r.Spec.ClaimingResources = nil
			},
		},
		"UnknownReason": {
			reason: "other reasons for Active are not",
			change: func(r *registration) { r.Status.Conditions = condition(v1alpha1.ConditionActive, "Tired") },
			want:   []string{"status.conditions", "Active condition reason must be valid"},
		},
	}
	for field, change := range map[string]func(*registration){
		"consumerTypeRef": func(r *registration) { r.Spec.ConsumerTypeRef.Kind = "Project" },
		"resourceType":    func(r *registration) { r.Spec.ResourceType = "other" },
		"type":            func(r *registration) { r.Spec.Type = v1alpha1.RegistrationTypeEntity },
	} {
		cases["Immutable/"+field] = ruleCase[registration]{
			reason: "stored amounts mean what it says",
			update: true,
			change: change,
			want:   []string{"spec." + field + " is immutable"},
		}
	}
	for _, reason := range []string{v1alpha1.ReasonRegistrationActive, v1alpha1.ReasonValidationFailed, v1alpha1.ReasonRegistrationPending} {
		cases["Reason/"+reason] = ruleCase[registration]{
			reason: "the reasons of the reference are accepted",
			change: func(r *registration) { r.Status.Conditions = condition(v1alpha1.ConditionActive, reason) },
		}
	}
	checkRules(t, "ResourceRegistration", sampleRegistration, cases)
}

func TestResourceGrantRules(t *testing.T) {
	type grant = v1alpha1.ResourceGrant
	cases := map[string]ruleCase[grant]{
		"MostAllowances": {
			reason: "20 allowances are accepted, of one type too: their selectors may differ",
			change: func(g *grant) { g.Spec.Allowances = allowances(20) },
		},
		"TooManyAllowances": {
			reason: "21 allowances are not",
			change: func(g *grant) { g.Spec.Allowances = allowances(21) },
			want:   []string{"spec.allowances", "at most 20 items"},
		},
		"NoAllowances": {
			reason: "a grant gives something",
			change: func(g *grant) { g.Spec.Allowances = []v1alpha1.Allowance{} },
			want:   []string{"spec.allowances"},
		},
		"ZeroBucket": {
			reason: "a bucket of 0 is valid",
			change: func(g *grant) { g.Spec.Allowances[0].Buckets[0].Amount = 0 },
		},
		"NegativeBucket": {
			reason: "a grant does not take",
			change: func(g *grant) { g.Spec.Allowances[0].Buckets[0].Amount = -1 },
			want:   []string{"spec.allowances[0].buckets[0].amount"},
		},
		"ManyBuckets": {
			reason: "the contract sets no bound to the buckets of an allowance",
			change: func(g *grant) { g.Spec.Allowances[0].Buckets = make([]v1alpha1.Bucket, 1000) },
		},
		"DimensionSelector": {
			reason: "an allowance may be restricted by dimensions",
			change: func(g *grant) {
				g.Spec.Allowances[0].DimensionSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/location": "DFW"}}
			},
		},
		"Resize": {
			reason: "a grant may change",
			update: true,
			change: func(g *grant) { g.Spec.Allowances[0].Buckets[0].Amount = 1 },
		},
		"UnknownReason": {
			reason: "a registration's reason is not a grant's",
			change: func(g *grant) {
				g.Status.Conditions = condition(v1alpha1.ConditionActive, v1alpha1.ReasonRegistrationActive)
			},
			want: []string{"status.conditions", "Active condition reason must be valid"},
		},
	}
	for _, reason := range []string{v1alpha1.ReasonGrantActive, v1alpha1.ReasonValidationFailed, v1alpha1.ReasonGrantPending} {
		cases["Reason/"+reason] = ruleCase[grant]{
			reason: "the reasons of the reference are accepted",
			change: func(g *grant) { g.Status.Conditions = condition(v1alpha1.ConditionActive, reason) },
		}
	}
	checkRules(t, "ResourceGrant", sampleGrant, cases)
}

// requestCases are the rules for requests, for claims and for claim templates.
func requestCases[T any](set func(*T, []v1alpha1.ResourceRequest), path string) map[string]ruleCase[T] {
	with := func(requests []v1alpha1.ResourceRequest) func(*T) {
		return func(object *T) { set(object, requests) }
	}
	withDimensions := func(dimensions map[string]string) func(*T) {
		return with([]v1alpha1.ResourceRequest{{ResourceType: "type", Amount: 1, Dimensions: dimensions}})
	}
	return map[string]ruleCase[T]{
		"MostRequests":    {reason: "20 requests are accepted", change: with(requests(20))},
		"TooManyRequests": {reason: "21 requests are not", change: with(requests(21)), want: []string{path, "at most 20 items"}},
		"NoRequests":      {reason: "something is asked for", change: with([]v1alpha1.ResourceRequest{}), want: []string{path, "at least 1 item"}},
		"SameTypeTwice": {
			reason: "allocations are keyed by type",
			change: with(append(requests(19), requests(1)...)),
			want:   []string{path, "requests must name each resourceType only once"},
		},
		"SameTypeInOtherDimensions": {
			reason: "different dimensions of one type are different claims",
			change: with([]v1alpha1.ResourceRequest{
				{ResourceType: "type", Amount: 1, Dimensions: map[string]string{"location": "DFW"}},
				{ResourceType: "type", Amount: 1, Dimensions: map[string]string{"location": "LHR"}},
			}),
			want: []string{path, "requests must name each resourceType only once"},
		},
		"LongestType": {
			reason: "a resource type may have 253 characters",
			change: with([]v1alpha1.ResourceRequest{{ResourceType: strings.Repeat("t", 253), Amount: 1}}),
		},
		"TooLongType": {
			reason: "no registration has a longer resource type",
			change: with([]v1alpha1.ResourceRequest{{ResourceType: strings.Repeat("t", 254), Amount: 1}}),
			want:   []string{path + "[0].resourceType"},
		},
		"ZeroAmount": {
			reason: "the schema admits 0, which is refused later",
			change: with([]v1alpha1.ResourceRequest{{ResourceType: "type"}}),
		},
		"NegativeAmount": {
			reason: "a request does not give",
			change: with([]v1alpha1.ResourceRequest{{ResourceType: "type", Amount: -1}}),
			want:   []string{path + "[0].amount"},
		},
		"MostDimensions":      {reason: "16 dimensions are accepted", change: withDimensions(dimensions(16))},
		"TooManyDimensions":   {reason: "17 dimensions are not", change: withDimensions(dimensions(17)), want: []string{path + "[0].dimensions", "at most 16 items"}},
		"LongestDimension":    {reason: "keys and values may be long", change: withDimensions(map[string]string{strings.Repeat("k", 317): strings.Repeat("v", 253)})},
		"TooLongDimension":    {reason: "a value may not be longer", change: withDimensions(map[string]string{"key": strings.Repeat("v", 254)}), want: []string{path + "[0].dimensions", "at most 253 characters"}},
		"TooLongDimensionKey": {reason: "nor may a key", change: withDimensions(map[string]string{strings.Repeat("k", 318): "value"}), want: []string{path + "[0].dimensions", "at most 317"}},
	}
}

func dimensions(n int) map[string]string {
	dimensions := map[string]string{}
	for i := range n {
		dimensions[fmt.Sprint("key-", i)] = "value"
	}
	return dimensions
}

func TestResourceClaimRules(t *testing.T) {
	type claim = v1alpha1.ResourceClaim
	cases := requestCases(func(c *claim, requests []v1alpha1.ResourceRequest) { c.Spec.Requests = requests }, "spec.requests")
	for _, reason := range []string{
		v1alpha1.ReasonQuotaAvailable, v1alpha1.ReasonQuotaExceeded,
		v1alpha1.ReasonValidationFailed, v1alpha1.ReasonPendingEvaluation,
	} {
		cases["Reason/"+reason] = ruleCase[claim]{
			reason: "the status of a claim changes, for the reasons of the reference",
			update: true,
			change: func(c *claim) { c.Status.Conditions = condition(v1alpha1.ConditionGranted, reason) },
		}
	}
	cases["UnknownReason"] = ruleCase[claim]{
		reason: "only the reasons of the reference are accepted",
		change: func(c *claim) { c.Status.Conditions = condition(v1alpha1.ConditionGranted, "Lucky") },
		want:   []string{"status.conditions", "Granted condition reason must be valid"},
	}
	cases["SameAllocationTwice"] = ruleCase[claim]{
		reason: "allocations are keyed by resource type",
		change: func(c *claim) {
			allocation := v1alpha1.RequestAllocation{ResourceType: "type-0", Status: v1alpha1.AllocationPending, LastTransitionTime: metav1.Unix(0, 0)}
			c.Status.Allocations = []v1alpha1.RequestAllocation{allocation, allocation}
		},
		want: []string{"status.allocations[1]", "Duplicate value"},
	}
	for field, change := range map[string]func(*claim){
		"consumerRef": func(c *claim) { c.Spec.ConsumerRef.Namespace = "elsewhere" },
		"resourceRef": func(c *claim) { c.Spec.ResourceRef.Name = "other" },
	} {
		cases["Immutable/"+field] = ruleCase[claim]{
			reason: "a claim stays with its consumer and its object",
			update: true,
			change: change,
			want:   []string{"spec." + field + " is immutable"},
		}
	}
	cases["Requests"] = ruleCase[claim]{
		reason: "a policy's claim follows its object; who may change requests is for the webhook to say",
		update: true,
		change: func(c *claim) { c.Spec.Requests[0].Amount++ },
	}
	checkRules(t, "ResourceClaim", sampleClaim, cases)
}

func TestAllowanceBucketRules(t *testing.T) {
	type bucket = v1alpha1.AllowanceBucket
	checkRules(t, "AllowanceBucket", sampleBucket, map[string]ruleCase[bucket]{
		"StatusUpdate": {
			reason: "the status follows the ledger",
			update: true,
			change: func(b *bucket) { b.Status = v1alpha1.AllowanceBucketStatus{Limit: 10, Allocated: 12} },
		},
		"OtherType": {
			reason: "a bucket is of one type",
			update: true,
			change: func(b *bucket) { b.Spec.ResourceType = "other" },
			want:   []string{"spec: Invalid value", "spec is immutable"},
		},
		"OtherConsumer": {
			reason: "a bucket is of one consumer",
			update: true,
			change: func(b *bucket) { b.Spec.ConsumerRef.Name = "other" },
			want:   []string{"spec: Invalid value", "spec is immutable"},
		},
	})
}
