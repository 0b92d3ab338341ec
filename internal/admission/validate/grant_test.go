package validate_test

import (
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

func TestGrant(t *testing.T) {
	type grant = quotav1alpha1.ResourceGrant
	set := func(allowances ...quotav1alpha1.Allowance) func(*grant) {
		return func(g *grant) { g.Spec.Allowances = allowances }
	}
	many := func(count int) []quotav1alpha1.Allowance {
		var allowances []quotav1alpha1.Allowance
		for range count {
			allowances = append(allowances, allowance("type", 1))
		}
		return allowances
	}
	selecting := allowance("type", 1)
	selecting.DimensionSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"location": "DFW"}}
	confused := allowance("type", 1)
	confused.DimensionSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "location", Operator: "Near", Values: []string{"DFW"}}},
	}
	const tooLarge = "the amounts that the grant gives of one resource type must add up to at most 9223372036854775807"
	checkRules(t, sampleGrant, validate.Grant, map[string]ruleCase[grant]{
		"Sample":    {reason: "a complete grant is valid", change: asIs[grant]},
		"Zero":      {reason: "a bucket of 0 is fine", change: set(allowance("type", 0))},
		"SameType":  {reason: "allowances of one type add up", change: set(allowance("type", 1), allowance("type", 2), selecting)},
		"Most":      {reason: "20 allowances are allowed", change: set(many(20)...)},
		"TooMany":   {reason: "21 are not", change: set(many(21)...), want: []string{`spec.allowances: Too many: 21: must have at most 20 items`}},
		"None":      {reason: "a grant gives something", change: set(), want: []string{`spec.allowances: Required value: must have at least 1 item`}},
		"NoBuckets": {reason: "an allowance has a bucket", change: set(allowance("type")), want: []string{`spec.allowances[0].buckets: Required value: must have at least 1 item`}},
		"Largest":   {reason: "sums are per type", change: set(allowance("a", math.MaxInt64, 0), allowance("b", math.MaxInt64))},
		"Overflow": {
			reason: "the sum of a type is an amount; what does not fit is told, and the rest is still added up",
			change: set(allowance("a", math.MaxInt64-1), allowance("b", 5), allowance("a", 2, 1, 1)),
			want: []string{
				`spec.allowances[2].buckets[0].amount: Invalid value: 2: ` + tooLarge,
				`spec.allowances[2].buckets[2].amount: Invalid value: 1: ` + tooLarge,
			},
		},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(g *grant) {
				g.Spec = quotav1alpha1.ResourceGrantSpec{
					Allowances:  []quotav1alpha1.Allowance{allowance("", -1), confused, allowance("a b", 1, -9)},
					ConsumerRef: quotav1alpha1.ConsumerRef{Name: "a/b", Namespace: "A"},
				}
			},
			want: []string{
				`spec.allowances[0].resourceType: Required value: name the resource type, such as resourcemanager.miloapis.com/projects`,
				`spec.allowances[0].buckets[0].amount: Invalid value: -1: must be greater than or equal to 0`,
				`spec.allowances[1].dimensionSelector: Invalid value: requirement 0: operator "Near" on location is not one of In, NotIn, Exists, DoesNotExist`,
				`spec.allowances[2].resourceType: Invalid value: "a b": must be made of printable characters without spaces`,
				`spec.allowances[2].buckets[1].amount: Invalid value: -9: must be greater than or equal to 0`,
				`spec.consumerRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.consumerRef.name: Invalid value: "a/b": may not contain '/'`,
				`spec.consumerRef.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			},
		},
		"BadNames": {
			reason: "a name has to fit into a path, and to be told from others by looking at it",
			change: func(g *grant) {
				g.Spec.ConsumerRef.Name = "acme\x00"
				g.Spec.ConsumerRef.Namespace = strings.Repeat("n", 64)
			},
			want: []string{
				`spec.consumerRef.name: Invalid value: "acme\x00": must be made of printable characters without spaces`,
				`spec.consumerRef.namespace: Too long: may not be more than 63 bytes`,
			},
		},
		"LongName": {
			reason: "names have a limit",
			change: func(g *grant) { g.Spec.ConsumerRef.Name = strings.Repeat("n", 254) },
			want:   []string{`spec.consumerRef.name: Too long: may not be more than 253 bytes`},
		},
		"Changed": {
			reason: "a changed grant is judged like a new one",
			before: asIs[grant],
			change: set(allowance("type", -1)),
			want:   []string{`spec.allowances[0].buckets[0].amount: Invalid value: -1: must be greater than or equal to 0`},
		},
		"Threshold": {
			reason: "it is judged though nothing else changes",
			before: asIs[grant],
			change: func(g *grant) { g.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "0"} },
			want:   []string{`metadata.annotations[quota.miloapis.com/alert-threshold-percent]: Invalid value: "0": must be a whole number of percent from 1 to 100, such as 80`},
		},
		"Unchanged": {
			reason: "a grant from before a rule was made can be labelled and let go",
			before: set(),
			change: func(g *grant) { g.Labels, g.Finalizers = map[string]string{"a": "b"}, nil },
		},
	})
}

func TestBucket(t *testing.T) {
	type bucket = quotav1alpha1.AllowanceBucket
	checkRules(t, sampleBucket, validate.Bucket, map[string]ruleCase[bucket]{
		"Sample": {reason: "a complete bucket is valid", change: asIs[bucket]},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(b *bucket) {
				b.Spec = quotav1alpha1.AllowanceBucketSpec{Dimensions: map[string]string{"": "x"}}
			},
			want: []string{
				`spec.consumerRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.consumerRef.name: Required value: name the object`,
				`spec.dimensions: Invalid value: a dimension key is empty`,
				`spec.resourceType: Required value: name the resource type, such as resourcemanager.miloapis.com/projects`,
			},
		},
		"Immutable": {
			reason: "a bucket is of one consumer, one type and one set of dimensions for good",
			before: asIs[bucket],
			change: func(b *bucket) {
				b.Spec.ResourceType, b.Spec.ConsumerRef.Name, b.Spec.Dimensions = "other", "globex", map[string]string{"location": "DFW"}
			},
			want: []string{
				`spec.consumerRef: Invalid value: field is immutable`,
				`spec.dimensions: Invalid value: field is immutable`,
				`spec.resourceType: Invalid value: field is immutable`,
			},
		},
		"Labelled": {
			reason: "anything else may change",
			before: asIs[bucket],
			change: func(b *bucket) { b.Labels = map[string]string{"team": "a"} },
		},
	})
}

func TestEffectiveGrant(t *testing.T) {
	type effective = quotav1alpha1.EffectiveResourceGrant
	checkRules(t, sampleEffectiveGrant, validate.EffectiveGrant, map[string]ruleCase[effective]{
		"Sample": {reason: "a complete one is valid", change: asIs[effective]},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(e *effective) { e.Spec = quotav1alpha1.EffectiveResourceGrantSpec{} },
			want: []string{
				`spec.consumerRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.consumerRef.name: Required value: name the object`,
				`spec.resourceType: Required value: name the resource type, such as resourcemanager.miloapis.com/projects`,
			},
		},
		"Immutable": {
			reason: "it is of one consumer and one type for good",
			before: asIs[effective],
			change: func(e *effective) { e.Spec.ResourceType, e.Spec.ConsumerRef.Name = "other", "globex" },
			want: []string{
				`spec.consumerRef: Invalid value: field is immutable`,
				`spec.resourceType: Invalid value: field is immutable`,
			},
		},
		"Labelled": {
			reason: "anything else may change",
			before: asIs[effective],
			change: func(e *effective) { e.Labels = map[string]string{"team": "a"} },
		},
	})
}

func TestGrantMarks(t *testing.T) {
	type grant = quotav1alpha1.ResourceGrant
	marked := func(g *grant) {
		g.Labels = map[string]string{
			quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "tiers", quotav1alpha1.LabelPolicyUID: "1f",
			quotav1alpha1.LabelSource: "tiers",
		}
		g.Annotations = map[string]string{
			quotav1alpha1.AnnotationCreatedBy: quotav1alpha1.CreatedByGrantCreation, quotav1alpha1.AnnotationResourceUID: "7d",
		}
	}
	const isBursars = ": Forbidden: is set, changed and removed only by Bursar"
	all := []string{
		`metadata.labels[quota.miloapis.com/auto-created]` + isBursars,
		`metadata.labels[quota.miloapis.com/policy]` + isBursars,
		`metadata.labels[quota.miloapis.com/policy-uid]` + isBursars,
		`metadata.annotations[quota.miloapis.com/created-by]` + isBursars,
		`metadata.annotations[quota.miloapis.com/resource-uid]` + isBursars,
	}
	checkRules(t, sampleGrant, validate.GrantMarks, map[string]ruleCase[grant]{
		"None":    {reason: "a person's grant has no marks", change: asIs[grant]},
		"Forged":  {reason: "nor may it", change: marked, want: all},
		"Removed": {reason: "a policy's grant keeps them", before: marked, change: func(g *grant) { g.Labels, g.Annotations = nil, nil }, want: all},
		"Kept":    {reason: "other changes leave them alone", before: marked, change: func(g *grant) { g.Labels["team"] = "a" }},
		"Source":  {reason: "where a grant comes from people say themselves", change: func(g *grant) { g.Labels = map[string]string{quotav1alpha1.LabelSource: "manual"} }},
	})
}
