package platform

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

const (
	// MapsType is the resource type for objects with names that begin with mapPrefix. Each uses one.
	MapsType  = Group + "/maps"
	mapPrefix = "map-"
	// timeout is longer than a busy machine takes to look at new declarations.
	timeout = 100 * time.Second
)

// DeclareMaps declares that ConfigMaps and Secrets count, and gives Organization acme so many of them. It waits until
// the grant is active.
func DeclareMaps(t testing.TB, api client.Client, amount int64) {
	t.Helper()
	if err := Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "acme", Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}}
	for _, object := range []client.Object{&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "maps"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: MapsType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: ConsumerType(),
		BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
		ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}, {Kind: "Secret"}},
	}}, grant} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T: %v", object, err)
		}
	}
	await.NoError(t, timeout, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("the grant is not active: %+v", grant.Status.Conditions)
		}
		return nil
	})
}

// MapPolicy creates the policy to charge the maps of a kind to Organization acme. The policy need not be ready yet.
func MapPolicy(t testing.TB, api client.Client, kind string) *quotav1alpha1.ClaimCreationPolicy {
	t.Helper()
	policy := newMapPolicy(kind)
	if err := api.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

// ProtectMapsByClaims is ProtectMaps with claims that hold the charges, because they say who asked for the maps.
func ProtectMapsByClaims(t testing.TB, api client.Client, kind string) {
	t.Helper()
	policy := newMapPolicy(kind)
	policy.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{"example.com/asked-by": "{{.user.name}}"}
	if err := api.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, timeout, func() error { return IsReady(t.Context(), api, policy) })
}

func newMapPolicy(kind string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind)}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{
			Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: kind},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: `object.metadata.name.startsWith("` + mapPrefix + `")`}},
		},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
			Spec: quotav1alpha1.ResourceClaimTemplateSpec{
				ConsumerRef: Consumer("acme"), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: MapsType, Amount: 1}},
			},
		}},
	}}
}

// ProtectMaps is MapPolicy, and waits until the policy is ready.
func ProtectMaps(t testing.TB, api client.Client, kind string) {
	t.Helper()
	policy := MapPolicy(t, api, kind)
	await.NoError(t, timeout, func() error { return IsReady(t.Context(), api, policy) })
}

// IsReady reads a policy, and returns nil if it is Ready, or an error with the reason.
func IsReady(ctx context.Context, api client.Client, policy *quotav1alpha1.ClaimCreationPolicy) error {
	if err := api.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
		return err
	}
	if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
		return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
	}
	return nil
}

// Map is a counted ConfigMap.
func Map(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(mapPrefix, n), Namespace: "default"}}
}

// IsMap reports whether an object counts, by its name.
func IsMap(object metav1.Object) bool { return strings.HasPrefix(object.GetName(), mapPrefix) }

// IsExceeded reports whether an error is a denial for lack of quota.
func IsExceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
