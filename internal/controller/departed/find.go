package departed

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// Finder finds the objects of consumers on the API server.
type Finder struct {
	Metadata metadata.Interface
	// Kinds resolves the kind of a consumer, and reports whether the API server serves it.
	Kinds *discoverycache.Cache
	// Permission returns the reason for not reading the objects of a resource, or nothing.
	Permission interface {
		Follow(ctx context.Context, resource schema.GroupVersionResource) (problem string, err error)
	}
}

// Find reports whether the object of a consumer exists. It lists objects with its name. Unlike a get, a list
// distinguishes a missing object from an unserved kind, and it finds the object in any namespace. A kind without a
// definition has no objects.
func (f *Finder) Find(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Existence, error) {
	kind := schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}
	if f.Kinds.DefinitionDeleted(kind) {
		return NotFound, nil // without a look at all definitions for each of many consumers
	}
	state, resource, err := f.Kinds.StateOf(ctx, kind)
	switch {
	case err != nil || state == discoverycache.NotServed:
		return Unknown, nil //nolint:nilerr // nobody knows now
	case state == discoverycache.Undefined:
		return NotFound, nil
	}
	if problem, err := f.Permission.Follow(ctx, resource); err != nil || problem != "" {
		return Unknown, err
	}
	list, err := f.Metadata.Resource(resource).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, consumer.Name).String()})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return Unknown, nil
	case err != nil:
		return Unknown, fmt.Errorf("look for the object: %w", err)
	}
	for i := range list.Items {
		if isOf(consumer, &list.Items[i]) {
			return Exists, nil
		}
	}
	if list.Continue != "" {
		return Unknown, nil
	}
	return NotFound, nil
}

// isOf reports whether an object may belong to a consumer. A consumer may name the namespace of its quota although its
// kind has none, or no namespace although its kind has one.
func isOf(consumer quotav1alpha1.ConsumerRef, object *metav1.PartialObjectMetadata) bool {
	return object.Name == consumer.Name && (consumer.Namespace == "" || object.Namespace == "" || object.Namespace == consumer.Namespace)
}
