package discoverycache

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is the availability of a kind.
type State int

const (
	// Served means that clients can read and write its objects.
	Served State = iota + 1
	// NotServed means that the kind has a definition, but the API server does not serve it now. Its objects may exist out
	// of reach.
	NotServed
	// Undefined means that the kind does not exist, and so has no objects.
	Undefined
)

// StateOf returns the state of a kind and, unless it is undefined, the resource of its objects. After an error the
// state is unknown now.
func (k *Cache) StateOf(ctx context.Context, kind schema.GroupKind) (State, schema.GroupVersionResource, error) {
	resource, served, err := k.ResourceFor(ctx, kind)
	if err != nil {
		return 0, resource, err
	}
	if served {
		return Served, resource, nil
	}
	list, err := k.definitions.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, resource, fmt.Errorf("look up the definition of kind %s: %w", kind, err)
	}
	for i := range list.Items {
		if definition := &list.Items[i]; defines(definition, kind) {
			return NotServed, schema.GroupVersionResource{Group: kind.Group, Resource: definition.Spec.Names.Plural}, nil
		}
	}
	return Undefined, resource, nil
}

func defines(definition *apiextensionsv1.CustomResourceDefinition, kind schema.GroupKind) bool {
	return definition.Spec.Group == kind.Group && definition.Spec.Names.Kind == kind.Kind
}

// DefinedResourceFor returns the resource of a kind at one version, also while the API server does not serve this
// version, and false if the kind does not exist. An error means that the answer is unknown now.
func (k *Cache) DefinedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	resource, served, err := k.VersionedResourceFor(ctx, kind)
	if err != nil || served {
		return resource, served, err
	}
	state, resource, err := k.StateOf(ctx, kind.GroupKind())
	if err != nil || state == Undefined {
		return schema.GroupVersionResource{}, false, err
	}
	return kind.GroupVersion().WithResource(resource.Resource), true, nil
}
