package discoverycache

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindOf returns the kind of a resource's objects, and false if the API server does not serve it. After an error the
// answer is unknown now.
func (k *Cache) KindOf(_ context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, bool, error) {
	s, err := k.current()
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

// replicasPath is the field that the scale subresource of Kubernetes' own kinds sets.
var replicasPath = []string{"spec", "replicas"}

// ReplicasPath returns the field of a resource's objects that its scale subresource sets.
func (k *Cache) ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	definition, err := k.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return replicasPath, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up the definition of %s: %w", resource.GroupResource(), err)
	}
	for _, version := range definition.Spec.Versions {
		if version.Name == resource.Version && version.Subresources != nil && version.Subresources.Scale != nil {
			return strings.Split(strings.TrimPrefix(version.Subresources.Scale.SpecReplicasPath, "."), "."), nil
		}
	}
	return nil, fmt.Errorf("%s has no scale subresource", resource)
}
