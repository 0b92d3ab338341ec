package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// uncached stores some resources without a watch cache. A watch cache keeps all objects, and each version of them for
// more than a minute.
type uncached struct {
	generic.RESTOptionsGetter
	// resources are in one version, or in all if the version is empty.
	resources []schema.GroupVersionResource
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (u uncached) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := u.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil {
		options.Decorator = u.decorator(resource, options.Decorator)
	}
	return options, err
}

// decorator returns the decorator for all versions of a resource. Only the objects that it makes show the version.
func (u uncached) decorator(resource schema.GroupResource, cached generic.StorageDecorator) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		version := newObject().GetObjectKind().GroupVersionKind().Version
		decorate := cached
		if slices.ContainsFunc(u.resources, func(r schema.GroupVersionResource) bool {
			return r.GroupResource() == resource && (r.Version == "" || r.Version == version)
		}) {
			decorate = generic.UndecoratedStorage
		}
		return decorate(config, prefix, key, newObject, newList, attributes, triggers, indexers)
	}
}
