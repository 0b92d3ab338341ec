package apiserver

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// cachedOptions are options with an error and a decorator to note its use.
type cachedOptions struct {
	err    error
	isUsed *bool
}

func (c cachedOptions) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		*c.isUsed = true
		return nil, nil, nil
	}}, c.err
}

func TestUncached(t *testing.T) {
	large, usual := schema.GroupResource{Group: "example.com", Resource: "large"}, schema.GroupResource{Group: "example.com", Resource: "usual"}
	tests := map[string]struct {
		reason     string
		resource   schema.GroupResource
		version    string
		wantCached bool
	}{
		"Named":         {"its versions would take much memory", large, "v1", false},
		"Other":         {"lists and watches are cheap with a cache", usual, "v1", true},
		"Named version": {"nobody reads it", usual, "v2", false},
	}
	for name, tt := range tests {
		isUsed := false
		options, err := uncached{cachedOptions{nil, &isUsed}, []schema.GroupVersionResource{
			large.WithVersion(""), usual.WithVersion("v2"),
		}}.GetRESTOptions(tt.resource, nil)
		if err != nil {
			t.Fatal(err)
		}
		newObject := func() runtime.Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: tt.version, Kind: "Any"})
			return object
		}
		config := &storagebackend.ConfigForResource{Config: storagebackend.Config{Type: "none"}} // fails to start
		_, _, err = options.Decorator(config, "", nil, newObject, nil, nil, nil, nil)
		if isUsed != tt.wantCached || (err == nil) != tt.wantCached {
			t.Errorf("%s: is stored with a cache: %t, want %t, error %v: %s", name, isUsed, tt.wantCached, err, tt.reason)
		}
	}
	broken := errors.New("broken")
	if _, err := (uncached{cachedOptions{broken, new(bool)}, nil}).GetRESTOptions(usual, nil); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}
