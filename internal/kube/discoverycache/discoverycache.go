// Package discoverycache caches the kinds served by the API server, and notifies of changes.
//
// It keeps the discovery result in memory. It repeats discovery, one request at a time, after a change of a
// CustomResourceDefinition and every half minute. If discovery of a group fails, as during a restart of an aggregated
// API server, the group's last result stands. Only the API server's own answer makes a kind not served, because Bursar
// then stops enforcing its quota.
//
// Like all of kube it knows no quota, and any internal package may import it.
package discoverycache

import (
	"context"
	"fmt"
	"sync"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery asks the API server for its kinds. An error of the type discovery.ErrGroupDiscoveryFailed names the groups
// missing from the results.
type Discovery interface {
	ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

// Resolver finds the resource of a kind at one version.
type Resolver interface {
	// VersionedResourceFor returns false if the kind is not served at that version. An error means that the answer is
	// unknown now.
	VersionedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error)
}

// DefinedResolver finds the resource of a kind at one version, also while the kind is defined and not served.
type DefinedResolver interface {
	// DefinedResourceFor returns false if the kind does not exist. An error means that the answer is unknown now.
	DefinedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error)
}

// States returns the availability of kinds.
type States interface {
	// StateOf returns the state of a kind and its resource. An error means that the state is unknown now.
	StateOf(ctx context.Context, kind schema.GroupKind) (State, schema.GroupVersionResource, error)
	// DefinitionDeleted reports whether the CustomResourceDefinition of a kind was deleted, with its objects.
	DefinitionDeleted(kind schema.GroupKind) bool
}

// Cache resolves kinds to resources. It is safe for concurrent use.
type Cache struct {
	discovery   Discovery
	definitions apiextensionsclient.Interface
	changed     chan struct{}

	mu       sync.Mutex
	handlers []func()
	// deleted are the kinds with a deleted definition.
	deleted map[schema.GroupKind]struct{}

	// discoverMu guards discovery, so all waiting callers share the answer.
	discoverMu sync.Mutex
	served     *served
	stale      bool
}

// New returns a Cache of the API server behind the clients. Run keeps it up to date.
func New(discovery Discovery, definitions apiextensionsclient.Interface) *Cache {
	return &Cache{
		discovery:   discovery,
		definitions: definitions,
		changed:     make(chan struct{}, 1),
	}
}

// OnChange registers f to be called after the set of served kinds changed.
func (k *Cache) OnChange(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers = append(k.handlers, f)
}

// ResourceFor returns the resource of a kind at the API server's preferred version, and false if the kind is not
// served. An error means that the answer is unknown now.
func (k *Cache) ResourceFor(_ context.Context, kind schema.GroupKind) (schema.GroupVersionResource, bool, error) {
	return k.resolve(kind, "")
}

// VersionedResourceFor returns the resource of a kind at one version, and false if it is not served. An error means
// that the answer is unknown now.
func (k *Cache) VersionedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return k.resolve(kind.GroupKind(), kind.Version)
}

func (k *Cache) resolve(kind schema.GroupKind, version string) (schema.GroupVersionResource, bool, error) {
	s, err := k.current()
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("look up kind %s: %w", kind, err)
	}
	return s.find(kind, version)
}

// current returns the served kinds, from memory unless they are stale there.
func (k *Cache) current() (*served, error) {
	k.discoverMu.Lock()
	defer k.discoverMu.Unlock()
	if k.served != nil && !k.stale {
		return k.served, nil
	}
	s, err := discover(k.discovery, k.served)
	if err != nil {
		return nil, err
	}
	k.served, k.stale = s, false
	return s, nil
}

// invalidate makes the next call of current run discovery.
func (k *Cache) invalidate() {
	k.discoverMu.Lock()
	defer k.discoverMu.Unlock()
	k.stale = true
}

func (k *Cache) notify() {
	k.mu.Lock()
	handlers := k.handlers
	k.mu.Unlock()
	for _, handler := range handlers {
		handler()
	}
}
