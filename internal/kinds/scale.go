package kinds

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindOf returns the kind of the objects of a resource, and false if it is not served. An error
// means that this cannot be told now.
func (k *Kinds) KindOf(_ context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, bool, error) {
	s, err := k.look()
	if err != nil {
		return schema.GroupVersionKind{}, false, fmt.Errorf("look up resource %s: %w", resource, err)
	}
	for kind, resources := range s.groups[resource.Group] {
		for _, served := range resources {
			if served == resource {
				return resource.GroupVersion().WithKind(kind), true, nil
			}
		}
	}
	if err := s.unknown[resource.Group]; err != nil {
		return schema.GroupVersionKind{}, false, fmt.Errorf("cannot tell whether resource %s is served: %w", resource, err)
	}
	return schema.GroupVersionKind{}, false, nil
}

// replicasPath is where the kinds that Kubernetes brings along keep the number that their scale
// subresource sets.
var replicasPath = []string{"spec", "replicas"}

// ReplicasPath returns the field of a kind's objects that its scale subresource sets.
func (k *Kinds) ReplicasPath(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	list, err := k.definitions.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look up the definition of kind %s: %w", kind.GroupKind(), err)
	}
	for i := range list.Items {
		definition := &list.Items[i]
		if !defines(definition, kind.GroupKind()) {
			continue
		}
		for _, version := range definition.Spec.Versions {
			if version.Name == kind.Version && version.Subresources != nil && version.Subresources.Scale != nil {
				return strings.Split(strings.TrimPrefix(version.Subresources.Scale.SpecReplicasPath, "."), "."), nil
			}
		}
		return nil, fmt.Errorf("kind %s has no scale subresource in version %s", kind.GroupKind(), kind.Version)
	}
	return replicasPath, nil
}
