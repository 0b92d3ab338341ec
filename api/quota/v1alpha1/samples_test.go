package v1alpha1_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/api/quota/v1alpha1"
)

// Valid objects. Tests change one thing in them.

func sampleConsumer() v1alpha1.ConsumerRef {
	return v1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", Name: "acme"}
}

// sampleConsumerTemplate takes the consumer's name from the object, as policies do.
func sampleConsumerTemplate() v1alpha1.ConsumerRef {
	consumer := sampleConsumer()
	consumer.Name = `{{index .trigger.metadata.labels "example.com/organization" | default "none"}}`
	return consumer
}

func sampleMeta(kind string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}, metav1.ObjectMeta{Name: "sample"}
}

func sampleRegistration() *v1alpha1.ResourceRegistration {
	typeMeta, objectMeta := sampleMeta("ResourceRegistration")
	return &v1alpha1.ResourceRegistration{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.ResourceRegistrationSpec{
			BaseUnit:             "byte",
			ClaimingResources:    []v1alpha1.ClaimingResource{{Kind: "PersistentVolumeClaim"}},
			ConsumerTypeRef:      v1alpha1.ConsumerTypeRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization"},
			Description:          "Storage of an organization",
			DisplayUnit:          "GiB",
			ResourceType:         "storage.example.com/volumes",
			Type:                 v1alpha1.RegistrationTypeAllocation,
			UnitConversionFactor: 1 << 30,
		},
	}
}

// requestTemplates are requests as a policy writes them.
func requestTemplates(requests []v1alpha1.ResourceRequest) []v1alpha1.ResourceRequestTemplate {
	templates := make([]v1alpha1.ResourceRequestTemplate, 0, len(requests))
	for _, r := range requests {
		templates = append(templates, v1alpha1.ResourceRequestTemplate{ResourceType: r.ResourceType, Amount: r.Amount, Dimensions: r.Dimensions})
	}
	return templates
}

func sampleGrant() *v1alpha1.ResourceGrant {
	typeMeta, objectMeta := sampleMeta("ResourceGrant")
	return &v1alpha1.ResourceGrant{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.ResourceGrantSpec{Allowances: allowances(1), ConsumerRef: sampleConsumer()},
	}
}

func sampleClaim() *v1alpha1.ResourceClaim {
	typeMeta, objectMeta := sampleMeta("ResourceClaim")
	return &v1alpha1.ResourceClaim{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.ResourceClaimSpec{
			ConsumerRef: sampleConsumer(),
			Requests:    requests(2),
			ResourceRef: v1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: "web", Name: "settings"},
		},
	}
}

func sampleBucket() *v1alpha1.AllowanceBucket {
	typeMeta, objectMeta := sampleMeta("AllowanceBucket")
	return &v1alpha1.AllowanceBucket{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.AllowanceBucketSpec{ConsumerRef: sampleConsumer(), ResourceType: "type-0"},
	}
}

func sampleClaimPolicy() *v1alpha1.ClaimCreationPolicy {
	typeMeta, objectMeta := sampleMeta("ClaimCreationPolicy")
	return &v1alpha1.ClaimCreationPolicy{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.ClaimCreationPolicySpec{
			Trigger: v1alpha1.ClaimTrigger{
				Resource:   v1alpha1.ClaimTriggerResource{APIVersion: "resourcemanager.miloapis.com/v1alpha1", Kind: "Project"},
				Conditions: []v1alpha1.ConditionExpression{{Expression: `trigger.spec.tier == "premium"`}},
			},
			Target: v1alpha1.ClaimTarget{ResourceClaimTemplate: v1alpha1.ResourceClaimTemplate{
				Metadata: sampleTemplateMetadata(),
				Spec:     v1alpha1.ResourceClaimTemplateSpec{ConsumerRef: sampleConsumerTemplate(), Requests: requestTemplates(requests(1))},
			}},
		},
	}
}

func sampleGrantPolicy() *v1alpha1.GrantCreationPolicy {
	typeMeta, objectMeta := sampleMeta("GrantCreationPolicy")
	return &v1alpha1.GrantCreationPolicy{
		TypeMeta: typeMeta, ObjectMeta: objectMeta,
		Spec: v1alpha1.GrantCreationPolicySpec{
			Trigger: v1alpha1.GrantTrigger{
				Resource: v1alpha1.GrantTriggerResource{APIVersion: "resourcemanager.miloapis.com/v1alpha1", Kind: "Organization"},
			},
			Target: v1alpha1.GrantTarget{ResourceGrantTemplate: v1alpha1.ResourceGrantTemplate{
				Metadata: sampleTemplateMetadata(),
				Spec:     v1alpha1.ResourceGrantSpec{Allowances: allowances(1), ConsumerRef: sampleConsumerTemplate()},
			}},
		},
	}
}

func sampleTemplateMetadata() v1alpha1.ObjectTemplateMetadata {
	return v1alpha1.ObjectTemplateMetadata{
		Name:        "{{.trigger.metadata.name}}-quota",
		Namespace:   `{{default "system" .trigger.metadata.namespace}}`,
		Annotations: map[string]string{"example.com/for": "{{.user.name}}"},
	}
}

// requests makes n requests, each of another resource type.
func requests(n int) []v1alpha1.ResourceRequest {
	var requests []v1alpha1.ResourceRequest
	for i := range n {
		requests = append(requests, v1alpha1.ResourceRequest{ResourceType: fmt.Sprint("type-", i), Amount: 1})
	}
	return requests
}

// allowances makes n allowances, all of the same resource type.
func allowances(n int) []v1alpha1.Allowance {
	var allowances []v1alpha1.Allowance
	for range n {
		allowances = append(allowances, v1alpha1.Allowance{ResourceType: "type-0", Buckets: []v1alpha1.Bucket{{Amount: 10}}})
	}
	return allowances
}

// condition makes a condition of the given type and reason.
func condition(conditionType, reason string) []metav1.Condition {
	return []metav1.Condition{{
		Type: conditionType, Reason: reason, Status: metav1.ConditionFalse,
		LastTransitionTime: metav1.Unix(0, 0),
	}}
}
