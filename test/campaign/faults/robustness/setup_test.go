package robustness

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// setUp declares the resource types, the limits and the policies.
func setUp(t *testing.T, api client.Client) {
	t.Helper()
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}})
	create(t, api, &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "configmaps"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity,
			ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit:        "map", DisplayUnit: "map", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	})
	for consumer, limit := range limits {
		create(t, api, &quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: consumer, Namespace: space},
			Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: platform.Consumer(consumer), Allowances: []quotav1alpha1.Allowance{{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: limit}},
			}}},
		})
		policy := policyFor(consumer)
		create(t, api, policy)
		waitReady(t, api, policy)
	}
}

// waitReady waits until a policy is Ready.
func waitReady(t *testing.T, api client.Client, policy *quotav1alpha1.ClaimCreationPolicy) {
	t.Helper()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
		}
		return nil
	})
}

func create(t *testing.T, api client.Client, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatalf("create %s: %v", object.GetName(), err)
	}
}

// policyFor charges each ConfigMap to a consumer.
func policyFor(consumer string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: consumer},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("trigger.metadata.namespace == %q", space)}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: consumer + "-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer(consumer),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
				},
			}},
		},
	}
}
