// Package apiservers tests several processes of `bursar standalone` on one etcd.
package apiservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

const (
	resourceType = "platform.example.com/maps"
	// soon is longer than it takes until a reservation is given up whose object never came.
	soon = 100 * time.Second
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}

// server is one of several.
type server struct {
	*process.Server
	client.Client
	dir string
}

// start starts a server on an etcd and a data directory, and waits until it is ready.
func start(t *testing.T, etcd, dir string) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	s := &server{Server: process.Start(t, dir, "--etcd-servers", etcd), dir: dir}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Client, err = client.New(s.Config(), client.Options{Scheme: types}); err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.NoError(t, soon, check)
}

// declare says through a server what is counted, and that Organization acme has so much of it.
func declare(t *testing.T, api client.Client, amount int64) {
	t.Helper()
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "acme", Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}}
	for _, object := range []client.Object{&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "maps"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
		BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
		ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}, {Kind: "Secret"}},
	}}, grant} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T: %v", object, err)
		}
	}
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("the grant is not active: %+v", grant.Status.Conditions)
		}
		return nil
	})
}

// protect has objects of a kind, with names that begin with "map-", charged to acme.
func protect(t *testing.T, api client.Client, kind string) *quotav1alpha1.ClaimCreationPolicy {
	t.Helper()
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind)}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{
			Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: kind},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: `object.metadata.name.startsWith("map-")`}},
		},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
			Spec: quotav1alpha1.ResourceClaimTemplateSpec{
				ConsumerRef: platform.Consumer("acme"), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
			},
		}},
	}}
	if err := api.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

// isReady tells whether a policy is in force, or why that cannot be told.
func isReady(ctx context.Context, api client.Client, policy *quotav1alpha1.ClaimCreationPolicy) error {
	if err := api.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
		return err
	}
	if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
		return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
	}
	return nil
}

func waitReady(t *testing.T, api client.Client, policy *quotav1alpha1.ClaimCreationPolicy) {
	t.Helper()
	eventually(t, func() error { return isReady(t.Context(), api, policy) })
}

func configMap(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", n), Namespace: "default"}}
}

func isExceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
