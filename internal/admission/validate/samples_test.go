package validate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var sampleConsumer = quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "acme"}

func sampleRegistration() *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		TypeMeta:   typeMeta("ResourceRegistration"),
		ObjectMeta: metav1.ObjectMeta{Name: "projects"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType:         "example.com/projects",
			Type:                 quotav1alpha1.RegistrationTypeEntity,
			BaseUnit:             "project",
			DisplayUnit:          "project",
			UnitConversionFactor: 1,
			ConsumerTypeRef:      quotav1alpha1.ConsumerTypeRef{APIGroup: "example.com", Kind: "Organization"},
			ClaimingResources:    []quotav1alpha1.ClaimingResource{{APIGroup: "example.com", Kind: "Project"}},
		},
	}
}

func activeRegistration() *quotav1alpha1.ResourceRegistration {
	registration := sampleRegistration()
	registration.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}
	return registration
}

func sampleGrant() *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		TypeMeta:   typeMeta("ResourceGrant"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "base"},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: sampleConsumer,
			Allowances:  []quotav1alpha1.Allowance{allowance("example.com/projects", 2, 3)},
		},
	}
}

func allowance(resourceType string, amounts ...int64) quotav1alpha1.Allowance {
	a := quotav1alpha1.Allowance{ResourceType: resourceType}
	for _, amount := range amounts {
		a.Buckets = append(a.Buckets, quotav1alpha1.Bucket{Amount: amount})
	}
	return a
}

func sampleClaim() *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{
		TypeMeta:   typeMeta("ResourceClaim"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "p1"},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: sampleConsumer,
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "example.com/projects", Amount: 1}},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: "example.com", Kind: "Project", Name: "p1"},
		},
	}
}

// policyClaim is a claim as Bursar makes it.
func policyClaim() *quotav1alpha1.ResourceClaim {
	claim := sampleClaim()
	claim.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "projects"}
	claim.Annotations = map[string]string{
		quotav1alpha1.AnnotationCreatedBy:   quotav1alpha1.CreatedByClaimCreation,
		quotav1alpha1.AnnotationResourceUID: "7d4f",
	}
	claim.Finalizers = []string{quotav1alpha1.FinalizerQuotaRelease}
	return claim
}

func sampleBucket() *quotav1alpha1.AllowanceBucket {
	return &quotav1alpha1.AllowanceBucket{
		TypeMeta:   typeMeta("AllowanceBucket"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "organization-acme"},
		Spec:       quotav1alpha1.AllowanceBucketSpec{ConsumerRef: sampleConsumer, ResourceType: "example.com/projects"},
	}
}

func sampleEffectiveGrant() *quotav1alpha1.EffectiveResourceGrant {
	return &quotav1alpha1.EffectiveResourceGrant{
		TypeMeta:   typeMeta("EffectiveResourceGrant"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "organization-acme"},
		Spec:       quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: sampleConsumer, ResourceType: "example.com/projects"},
	}
}

func sampleClaimPolicy() *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		TypeMeta:   typeMeta("ClaimCreationPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: "projects"},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "example.com/v1", Kind: "Project"},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "{{.trigger.metadata.namespace}}"},
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "example.com/projects", Amount: 1}},
				},
			}},
		},
	}
}

func sampleGrantPolicy() *quotav1alpha1.GrantCreationPolicy {
	return &quotav1alpha1.GrantCreationPolicy{
		TypeMeta:   typeMeta("GrantCreationPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: "organizations"},
		Spec: quotav1alpha1.GrantCreationPolicySpec{
			Trigger: quotav1alpha1.GrantTrigger{
				Resource:   quotav1alpha1.GrantTriggerResource{APIVersion: "example.com/v1", Kind: "Organization"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: `trigger.spec.tier == "gold"`}},
			},
			Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
				Spec: quotav1alpha1.ResourceGrantSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "{{.trigger.metadata.name}}"},
					Allowances:  []quotav1alpha1.Allowance{allowance("example.com/projects", 5)},
				},
			}},
		},
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: kind}
}

// ruleCase is one object with all its errors. The case creates it after change or, if before is set, changes it from
// its form after before to its form after both.
type ruleCase[T any] struct {
	reason         string
	before, change func(*T)
	want           []string
}

func checkRules[T any](t *testing.T, sample func() *T, rules func(old, new *T) field.ErrorList, cases map[string]ruleCase[T]) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var before *T
			after := sample()
			if c.before != nil {
				before = sample()
				c.before(before)
				c.before(after)
			}
			c.change(after)
			var got []string
			for _, err := range rules(before, after) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\nerrors (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// asIs leaves an object as it is.
func asIs[T any](*T) {}
