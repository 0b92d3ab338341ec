package main

import (
	"context"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

const (
	resourceType = "bench/configmaps"
	systemSpace  = "bursar-system"
	// Each namespace has a consumer of its name: plenty has room for everything, none for nothing, and
	// unprotected belongs to nobody.
	plenty      = "plenty"
	nothing     = "nothing"
	narrow      = "narrow"
	unprotected = "unprotected"

	narrowLimit = 20
	// plentyLimit is more than is ever created.
	plentyLimit = 10_000_000

	// manyConsumers share the load where it does not meet in one ledger.
	manyConsumers = 100
)

// many is the name of one of many consumers, and of its namespace.
func many(n int) string { return fmt.Sprint("many-", n) }

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := quotav1alpha1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}

// setUp makes the declarations for the measurements: ConfigMaps with the label counted=true charge their namespace.
func (b *bench) setUp(ctx context.Context) error {
	if err := platform.Install(ctx, b.client); err != nil {
		return err
	}
	objects := []client.Object{
		registrationOf(resourceType, []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}}),
		&quotav1alpha1.ClaimCreationPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "configmaps"},
			Spec: quotav1alpha1.ClaimCreationPolicySpec{
				Trigger: quotav1alpha1.ClaimTrigger{
					Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
					Conditions: []quotav1alpha1.ConditionExpression{{
						Expression: `has(trigger.metadata.labels) && "counted" in trigger.metadata.labels`,
					}},
				},
				Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
					Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "configmap-{{.trigger.metadata.name}}"},
					Spec: quotav1alpha1.ResourceClaimTemplateSpec{
						ConsumerRef: platform.Consumer("{{.trigger.metadata.namespace}}"),
						Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
					},
				}},
			},
		},
	}
	limits := map[string]int64{plenty: plentyLimit, nothing: 0, narrow: narrowLimit}
	for n := range manyConsumers {
		limits[many(n)] = plentyLimit
	}
	namespaces := []string{unprotected}
	for name, limit := range limits {
		namespaces = append(namespaces, name)
		objects = append(objects, grantOf(name, resourceType, limit))
	}
	for _, name := range namespaces {
		if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if policy, is := object.(*quotav1alpha1.ClaimCreationPolicy); is {
			policy.Spec.Claims = b.claims
		}
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return b.waitUsable(ctx, objects)
}

// waitUsable waits until every object reports itself ready.
func (b *bench) waitUsable(ctx context.Context, objects []client.Object) error {
	for _, object := range objects {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
			if err := b.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return false, err
			}
			switch object := object.(type) {
			case *quotav1alpha1.ResourceRegistration:
				return apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionActive), nil
			case *quotav1alpha1.ResourceGrant:
				return apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionActive), nil
			case *quotav1alpha1.ClaimCreationPolicy:
				return apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionReady), nil
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s to be in effect: %w", object.GetName(), err)
		}
	}
	return nil
}

// registrationOf registers a resource type for quota of Organizations.
func registrationOf(resourceType string, claiming []quotav1alpha1.ClaimingResource) *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: path.Base(resourceType)},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType:         resourceType,
			Type:                 quotav1alpha1.RegistrationTypeEntity,
			ConsumerTypeRef:      platform.ConsumerType(),
			BaseUnit:             "object",
			DisplayUnit:          "object",
			UnitConversionFactor: 1,
			ClaimingResources:    claiming,
		},
	}
}

// grantOf grants a consumer some of a resource type.
func grantOf(consumer, resourceType string, limit int64) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: consumer + "-" + path.Base(resourceType), Namespace: systemSpace},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: platform.Consumer(consumer),
			Allowances: []quotav1alpha1.Allowance{{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: limit}},
			}},
		},
	}
}
