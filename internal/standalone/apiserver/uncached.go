package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// uncached stores some resources without a watch cache. A watch cache keeps each version of an object for more than a
// minute.
type uncached struct {
	generic.RESTOptionsGetter
	resources []schema.GroupResource
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (u uncached) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := u.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil && slices.Contains(u.resources, resource) {
		options.Decorator = generic.UndecoratedStorage
	}
	return options, err
}
