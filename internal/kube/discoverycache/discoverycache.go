// Package discoverycache knows which kinds the API server serves right now, and tells when that changed.
//
// What discovery says is kept in memory and looked up anew, by one look at a time, after a
// CustomResourceDefinition changed and every half minute. Where discovery of a group fails, as
// it does while an aggregated API server restarts, what was last known of the group stands: a
// kind is only called not served when the API server says so, because quota of such a kind is
// not enforced any more.
package discoverycache

import (
	"context"
	"fmt"
	"sync"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery asks the API server what it serves. An error of the type
// discovery.ErrGroupDiscoveryFailed names groups that the results do not cover.
type Discovery interface {
	ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

// Resolver finds the resource of a kind at one version.
type Resolver interface {
	// VersionedResourceFor returns false if the kind is not served at that version. An error means that this cannot be
	// told now.
	VersionedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error)
}

// DefinedResolver finds the resource of a kind at one version, also while the kind is defined and not served.
type DefinedResolver interface {
	// DefinedResourceFor returns false if there is no such kind. An error means that this cannot be told
	// now.
	DefinedResourceFor(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error)
}

// States tells what may be done with the objects of a kind.
type States interface {
	// StateOf returns whether the API server serves a kind, and if so, its resource. An error means that this cannot be told
	// now.
	StateOf(ctx context.Context, kind schema.GroupKind) (State, schema.GroupVersionResource, error)
	// DefinitionDeleted reports whether the CustomResourceDefinition of a kind was seen to be deleted, with its objects.
	DefinitionDeleted(kind schema.GroupKind) bool
}

// Cache resolves kinds to resources. It is safe for concurrent use.
type Cache struct {
	discovery   Discovery
	definitions apiextensionsclient.Interface
	changed     chan struct{}

	mu       sync.Mutex
	handlers []func()
	// deleted are the kinds whose definition was seen to be deleted.
	deleted map[schema.GroupKind]struct{}

	// discoverMu is held while discovery is asked, so that all who wait share the answer.
	discoverMu sync.Mutex
	served     *served
	stale      bool
}

// New returns Kinds of the API server that the clients talk to. Run keeps them up to date.
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

// ResourceFor returns the resource by which objects of a kind are watched, at the version that
// the API server prefers, and false if the kind is not served. An error means that this cannot
// be told now.
func (k *Cache) ResourceFor(_ context.Context, kind schema.GroupKind) (schema.GroupVersionResource, bool, error) {
	return k.resolve(kind, "")
}

// VersionedResourceFor returns the resource of a kind at one version, and false if it is not
// served. An error means that this cannot be told now.
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

// look returns what is served, from memory unless that is stale.
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

// forget makes the next look ask discovery.
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
