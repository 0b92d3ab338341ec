package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

const (
	teamsType        = "platform.example.com/teams"
	ledgersNamespace = "ledgers"
)

// TestNamespaces proves that claims of cluster-scoped objects and buckets are in the namespaces of the options.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("first start", func(t *testing.T) { testNamespaces(t, dir) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := standalone.Start(ctx, standalone.Options{DataDir: dir, Listen: "127.0.0.1:0", Log: logr.Discard(), Quota: config.Quota{SystemNamespace: "other"}})
	if err == nil {
		cancel()
		_ = server.Wait() // its start is already the failure
	}
	if want := "the ledgers that are stored here belong to the system namespace " + ledgersNamespace + "; start with --system-namespace " + ledgersNamespace; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with another system namespace: got %v, want %q", err, want)
	}
}

func testNamespaces(t *testing.T, dir string) {
	api := start(t, standalone.Options{
		DataDir: dir, Quota: config.Quota{SystemNamespace: ledgersNamespace, ConsumerNamespaces: inOrganizations},
	}).Admin
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	policy := teamPolicy()
	create(t, api, platform.Definition(platform.Group, "Team", "teams"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "organization-acme"}}, teamRegistration(), teamGrant(), policy)
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
		}
		return nil
	})
	create(t, api, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": platform.Group + "/v1", "kind": "Team", "metadata": map[string]any{"name": "web"},
	}})
	eventually(t, func() error {
		var claims quotav1alpha1.ResourceClaimList
		var buckets quotav1alpha1.AllowanceBucketList
		if err := errors.Join(api.List(t.Context(), &claims), api.List(t.Context(), &buckets)); err != nil {
			return err
		}
		if len(claims.Items) != 1 || claims.Items[0].Namespace != ledgersNamespace {
			return fmt.Errorf("claims: %+v, want one in namespace %s", claims.Items, ledgersNamespace)
		}
		var effective quotav1alpha1.EffectiveResourceGrantList
		if err := api.List(t.Context(), &effective, client.InNamespace("organization-acme")); err != nil {
			return err
		}
		if len(effective.Items) != 1 || effective.Items[0].Status.TotalAllocated != 1 {
			return fmt.Errorf("effective grants: %+v, want one in namespace organization-acme with 1 allocated", effective.Items)
		}
		if len(buckets.Items) != 1 || buckets.Items[0].Namespace != "organization-acme" || buckets.Items[0].Status.Allocated != 1 {
			return fmt.Errorf("buckets: %+v, want one in namespace organization-acme with 1 allocated", buckets.Items)
		}
		return nil
	})
}

func teamRegistration() *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "teams"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: teamsType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "team", DisplayUnit: "team", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: platform.Group, Kind: "Team"}},
		},
	}
}

func teamGrant() *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: ledgersNamespace},
		Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{
			ResourceType: teamsType, Buckets: []quotav1alpha1.Bucket{{Amount: 1}},
		}}},
	}
}

// teamPolicy charges acme for each Team. It does not set the namespace of the claims.
func teamPolicy() *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "teams"},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: platform.Group + "/v1", Kind: "Team"}},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "team-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer("acme"), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: teamsType, Amount: 1}},
				},
			}},
		},
	}
}

func create(t *testing.T, api client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}
