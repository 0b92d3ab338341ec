// Package platform is the imaginary platform of the tests: its consumers are Organizations.
package platform

import (
	"context"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Group and Kind are those of Organizations.
const (
	Group = "platform.example.com"
	Kind  = "Organization"
)

// ConsumerType is Organizations as a registration names them.
func ConsumerType() quotav1alpha1.ConsumerTypeRef {
	return quotav1alpha1.ConsumerTypeRef{APIGroup: Group, Kind: Kind}
}

// Consumer is the Organization with a name. It need not exist.
func Consumer(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: Group, Kind: Kind, Name: name}
}

// Definition defines a cluster-scoped kind of the platform for any content.
func Definition(group, kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	anything := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything,
				}},
			}},
		},
	}
}

// ScalableDefinition defines a namespaced kind of the platform with replicas and a scale subresource. Its spec may also
// hold anything else.
func ScalableDefinition(group, kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	anything := true
	part := apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &anything,
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}},
	}
	definition := Definition(group, kind, plural)
	definition.Spec.Scope = apiextensionsv1.NamespaceScoped
	version := &definition.Spec.Versions[0]
	version.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": part, "status": part},
	}
	version.Subresources = &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
	}
	return definition
}

// Install makes the server know Organizations.
func Install(ctx context.Context, api client.Client) error {
	definition := Definition(Group, Kind, "organizations")
	if err := api.Create(ctx, definition); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			return false, err
		}
		return apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established), nil
	})
}
