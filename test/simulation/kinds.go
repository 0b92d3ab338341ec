package simulation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// kinds is the discovery of a cluster with a policy on ConfigMaps.
type kinds struct{}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// VersionedResourceFor implements [discoverycache.Resolver].
func (kinds) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return configMaps, true, nil
}

// StateOf implements [discoverycache.States].
func (kinds) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Served, configMaps, nil
}

// DefinitionDeleted implements [discoverycache.States].
func (kinds) DefinitionDeleted(schema.GroupKind) bool { return false }

// KindOf implements [enforce.Kinds].
func (kinds) KindOf(context.Context, schema.GroupVersionResource) (schema.GroupVersionKind, bool, error) {
	return schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, true, nil
}

// ReplicasPath implements [enforce.Kinds].
func (kinds) ReplicasPath(context.Context, schema.GroupVersionResource) ([]string, error) {
	return nil, nil
}

// namespaceReader reads the metadata of namespaces from a cache of whole ones. An informer of metadata leaves a
// goroutine behind that a bubble of package synctest would wait for.
type namespaceReader struct{ client.Reader }

// Get implements [client.Reader].
func (r namespaceReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	namespace := &corev1.Namespace{}
	if err := r.Reader.Get(ctx, key, namespace, options...); err != nil {
		return err
	}
	object.(*metav1.PartialObjectMetadata).ObjectMeta = namespace.ObjectMeta
	return nil
}
