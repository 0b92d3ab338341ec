package simulation

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/catalog"
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

// anyVersion implements [enforce.Gate]: the policies never change.
type anyVersion struct{}

// Wait implements [enforce.Gate].
func (anyVersion) Wait(context.Context, catalog.Version) error { return nil }

// namespaces implements [evaluator.Namespaces] and [adoption.Namespaces]: every namespace exists, and never changes.
type namespaces struct{}

// Active implements [evaluator.Namespaces].
func (namespaces) Active(context.Context, string) (bool, error) { return true, nil }

// Object implements [evaluator.Namespaces].
func (namespaces) Object(_ context.Context, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, nil
}

// AwaitCurrent implements [adoption.Namespaces].
func (namespaces) AwaitCurrent(context.Context) error { return nil }
