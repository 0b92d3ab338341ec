package apiserver

import (
	"errors"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
)

// cachedOptions are options with a watch cache, and an error.
type cachedOptions struct{ err error }

func (c cachedOptions) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{Decorator: registry.StorageWithCacher()}, c.err
}

func TestUncached(t *testing.T) {
	large, usual := schema.GroupResource{Group: "example.com", Resource: "large"}, schema.GroupResource{Group: "example.com", Resource: "usual"}
	broken := errors.New("broken")
	tests := map[string]struct {
		reason   string
		resource schema.GroupResource
		err      error
		want     bool
	}{
		"Named": {"its versions would take much memory", large, nil, true},
		"Other": {"lists and watches are cheap with a cache", usual, nil, false},
		"Error": {"options that come with an error are not used", large, broken, false},
	}
	for name, tt := range tests {
		options, err := uncached{cachedOptions{tt.err}, []schema.GroupResource{large}}.GetRESTOptions(tt.resource, nil)
		got := reflect.ValueOf(options.Decorator).Pointer() == reflect.ValueOf(generic.UndecoratedStorage).Pointer()
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: is stored without a cache: %t, want %t, error %v: %s", name, got, tt.want, err, tt.reason)
		}
	}
}
