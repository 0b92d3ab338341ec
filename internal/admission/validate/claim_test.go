package validate_test

import (
	"fmt"
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

type claim = quotav1alpha1.ResourceClaim

func byUser(old, new *claim) field.ErrorList   { return validate.Claim(old, new, false) }
func byBursar(old, new *claim) field.ErrorList { return validate.Claim(old, new, true) }

func TestClaim(t *testing.T) {
	set := func(requests ...quotav1alpha1.ResourceRequest) func(*claim) {
		return func(c *claim) { c.Spec.Requests = requests }
	}
	many := func(count int) []quotav1alpha1.ResourceRequest {
		var requests []quotav1alpha1.ResourceRequest
		for i := range count {
			requests = append(requests, quotav1alpha1.ResourceRequest{ResourceType: fmt.Sprint("type-", i), Amount: math.MaxInt64})
		}
		return requests
	}

	checkRules(t, sampleClaim, byUser, map[string]ruleCase[claim]{
		"Sample":  {reason: "a complete claim is valid", change: asIs[claim]},
		"Most":    {reason: "20 requests are allowed, of any amount", change: set(many(20)...)},
		"TooMany": {reason: "21 are not", change: set(many(21)...), want: []string{`spec.requests: Too many: 21: must have at most 20 items`}},
		"None":    {reason: "a claim asks for something", change: set(), want: []string{`spec.requests: Required value: must have at least 1 item`}},
		"Amounts": {
			reason: "an amount is positive",
			change: set(
				quotav1alpha1.ResourceRequest{ResourceType: "a", Amount: 0},
				quotav1alpha1.ResourceRequest{ResourceType: "b", Amount: -4},
			),
			want: []string{
				`spec.requests[0].amount: Invalid value: 0: must be a positive integer`,
				`spec.requests[1].amount: Invalid value: -4: must be a positive integer`,
			},
		},
		"WithoutObject": {
			reason: "a claim may be for no object",
			change: func(c *claim) { c.Spec.ResourceRef = quotav1alpha1.UnversionedObjectReference{} },
		},
		"EverythingWrong": {
			reason: "everything that is wrong is told at once",
			change: func(c *claim) {
				c.Spec = quotav1alpha1.ResourceClaimSpec{ResourceRef: quotav1alpha1.UnversionedObjectReference{Namespace: "web"}, Requests: []quotav1alpha1.ResourceRequest{
					{ResourceType: "a", Amount: 1, Dimensions: map[string]string{"": "x"}},
					{ResourceType: "a", Amount: 0, Dimensions: map[string]string{"location": "DFW"}},
					{Amount: 1},
				}}
				c.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true"}
			},
			want: []string{
				`spec.consumerRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.consumerRef.name: Required value: name the object`,
				`spec.requests[0].dimensions: Invalid value: a dimension key is empty`,
				`spec.requests[1].resourceType: Duplicate value: "a": a resource type may be requested once; for other dimensions of it, create another claim`,
				`spec.requests[1].amount: Invalid value: 0: must be a positive integer`,
				`spec.requests[2].resourceType: Required value: name the resource type, such as resourcemanager.miloapis.com/projects`,
				`spec.resourceRef.kind: Required value: name the kind of the object, such as Project`,
				`spec.resourceRef.name: Required value: name the object`,
				`metadata.labels[quota.miloapis.com/auto-created]: Forbidden: is set, changed and removed only by Bursar`,
			},
		},
		"Immutable": {
			reason: "to ask for something else is another claim",
			before: func(c *claim) {
				c.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
			},
			change: func(c *claim) {
				c.Spec.ConsumerRef.Name, c.Spec.Requests[0].Amount, c.Spec.ResourceRef.Name = "globex", 2, "p2"
			},
			want: []string{
				`spec.consumerRef: Invalid value: field is immutable`,
				`spec.requests: Invalid value: field is immutable; to resize a granted claim, set the annotation quota.miloapis.com/resize`,
				`spec.resourceRef: Invalid value: field is immutable`,
			},
		},
		"ImmutableWaiting": {
			reason: "a claim that waits holds nothing that could be resized",
			before: asIs[claim],
			change: func(c *claim) { c.Spec.Requests[0].Amount = 2 },
			want: []string{
				`spec.requests: Invalid value: field is immutable; this claim is not granted and holds nothing: delete it, and create another`,
			},
		},
		"Unchanged": {
			reason: "a claim from before a rule was made can be labelled",
			before: set(),
			change: func(c *claim) { c.Labels = map[string]string{"team": "a"} },
		},
	})
}

func TestClaimMarks(t *testing.T) {
	const bursars = "Forbidden: is set, changed and removed only by Bursar"
	all := []string{
		`metadata.labels[quota.miloapis.com/auto-created]: ` + bursars,
		`metadata.labels[quota.miloapis.com/policy]: ` + bursars,
		`metadata.annotations[quota.miloapis.com/created-by]: ` + bursars,
		`metadata.annotations[quota.miloapis.com/resource-uid]: ` + bursars,
	}
	strip := func(c *claim) { c.Labels, c.Annotations = nil, nil }

	checkRules(t, policyClaim, byUser, map[string]ruleCase[claim]{
		"Created": {reason: "nobody can pretend that a claim is paid for", change: asIs[claim], want: all},
		"Removed": {reason: "nobody can make a claim look like one of a person", before: asIs[claim], change: strip, want: all},
		"Added":   {reason: "nor the other way round", before: strip, change: func(c *claim) { *c = *policyClaim() }, want: all},
		"Changed": {
			reason: "nor make it the claim of another object",
			before: asIs[claim],
			change: func(c *claim) { c.Annotations[quotav1alpha1.AnnotationResourceUID] = "other" },
			want:   all[3:4],
		},
		"Emptied": {
			reason: "an empty mark is a mark",
			before: strip,
			change: func(c *claim) { c.Labels = map[string]string{quotav1alpha1.LabelPolicy: ""} },
			want:   all[1:2],
		},
		"Others": {
			reason: "labels that say nothing about who pays are free, also of Bursar's domain",
			before: asIs[claim],
			change: func(c *claim) { c.Labels[quotav1alpha1.LabelConsumerKind] = "Organization" },
		},
		"FinalizerRemoved": {
			reason: "the claim would go and leave its charge",
			before: func(c *claim) { c.DeletionTimestamp = &metav1.Time{} },
			change: func(c *claim) { c.Finalizers = []string{"example.com/other"} },
			want: []string{`metadata.finalizers: Forbidden: quota.miloapis.com/quota-release is removed only by Bursar, ` +
				`once the claim is deleted and its charge returned`},
		},
		"OtherFinalizers": {
			reason: "those of others come and go",
			before: asIs[claim],
			change: func(c *claim) { c.Finalizers = append(c.Finalizers, "example.com/other") },
		},
	})

	t.Run("Bursar", func(t *testing.T) {
		checkRules(t, policyClaim, byBursar, map[string]ruleCase[claim]{
			"Created":          {reason: "Bursar marks its claims", change: asIs[claim]},
			"FinalizerRemoved": {reason: "Bursar lets claims go", before: asIs[claim], change: func(c *claim) { c.Finalizers = nil }},
			"Wrong": {
				reason: "Bursar's claims are claims",
				change: func(c *claim) { c.Spec.Requests[0].Amount = 0 },
				want:   []string{`spec.requests[0].amount: Invalid value: 0: must be a positive integer`},
			},
		})
	})
}
