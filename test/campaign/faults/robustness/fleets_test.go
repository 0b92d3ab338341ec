package robustness

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
)

// fleetKind is a kind with charges that follow updates: a Fleet costs its payer one for each replica.
var fleetKind = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Fleet"}

const (
	// replicasType is the resource type of the replicas.
	replicasType = "robustness/replicas"
	// replicasMax is how many replicas a fleet may get.
	replicasMax = 5
)

// payers are the consumers for fleets, with the replicas allowed for each.
var payers = map[string]int64{"first": 20, "second": 12}

func newFleet(name, payer string, replicas int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas, "payer": payer}}}
	object.SetGroupVersionKind(fleetKind)
	object.SetNamespace(space)
	object.SetName(name)
	return object
}

func replicasOf(object *unstructured.Unstructured) int64 {
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return replicas
}

func payerOf(object *unstructured.Unstructured) string {
	payer, _, _ := unstructured.NestedString(object.Object, "spec", "payer")
	return payer
}

// setUpFleets declares fleets and the limits of their payers, without a policy.
func setUpFleets(t *testing.T, api client.Client) {
	t.Helper()
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}})
	create(t, api, platform.ScalableDefinition(fleetKind.Group, fleetKind.Kind, "fleets"))
	create(t, api, &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "replicas"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: replicasType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "replica", DisplayUnit: "replica", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: fleetKind.Group, Kind: fleetKind.Kind}},
		},
	})
	for payer, limit := range payers {
		create(t, api, &quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: payer, Namespace: space},
			Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: platform.Consumer(payer), Allowances: []quotav1alpha1.Allowance{{
				ResourceType: replicasType, Buckets: []quotav1alpha1.Bucket{{Amount: limit}},
			}}},
		})
	}
	waitGranted(t, api)
	eventually(t, func() error {
		_, err := listFleets(t.Context(), api)
		return err
	})
}

// fleetPolicy charges the payer of each fleet, and follows its updates.
func fleetPolicy() *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "fleets"},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: fleetKind.GroupVersion().String(), Kind: fleetKind.Kind},
				Operations: []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "fleet-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer("{{.trigger.spec.payer}}"),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: replicasType, AmountExpression: "trigger.spec.replicas"}},
				},
			}},
		},
	}
}

// listFleets returns all fleets as they were at one instant.
func listFleets(ctx context.Context, api client.Client) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fleetKind.GroupVersion().WithKind("FleetList"))
	err := api.List(ctx, list, client.InNamespace(space))
	return list.Items, err
}

// totals adds up the replicas of each payer.
func totals(fleets []unstructured.Unstructured) map[string]int64 {
	total := map[string]int64{}
	for i := range fleets {
		total[payerOf(&fleets[i])] += replicasOf(&fleets[i])
	}
	return total
}

// checkFleets waits until fleets, claims, ledgers and buckets agree, and returns the fleets. A fleet of nothing has no
// claim.
func checkFleets(t *testing.T, api client.Client) (fleets []unstructured.Unstructured) {
	t.Helper()
	eventually(t, func() (err error) {
		if fleets, err = listFleets(t.Context(), api); err != nil {
			return err
		}
		a := kit.Agreement{Limits: kit.Charges{}, Objects: map[types.UID]kit.Charges{}, Overdraft: true}
		for payer, limit := range payers {
			a.Limits[payer] = kit.Amounts{replicasType: limit}
		}
		for i := range fleets {
			if fleet := &fleets[i]; replicasOf(fleet) > 0 {
				a.Objects[fleet.GetUID()] = kit.Charges{payerOf(fleet): {replicasType: replicasOf(fleet)}}
			}
		}
		return a.Check(t.Context(), api)
	})
	return fleets
}
