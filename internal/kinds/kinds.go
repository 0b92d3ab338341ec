// Package kinds knows which kinds the API server serves right now, and tells when that may
// have changed.
package kinds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

const (
	// settleTime is how long further changes are waited for before anybody is told.
	settleTime = 100 * time.Millisecond
	// recheckTime is when kinds are looked up once more after a change: a new kind can be
	// established a moment before discovery lists it.
	recheckTime = time.Second
	// refreshInterval is how often kinds are looked up anew without a sign that they changed:
	// those of aggregated API servers come and go unannounced.
	refreshInterval = 30 * time.Second
)

// Kinds resolves kinds through discovery, which it keeps in memory. It is safe for concurrent use.
type Kinds struct {
	definitions apiextensionsclient.Interface
	mapper      *restmapper.DeferredDiscoveryRESTMapper
	changed     chan struct{}

	mu       sync.Mutex
	handlers []func()
}

// New returns Kinds of the API server that the clients talk to.
func New(client discovery.DiscoveryInterface, definitions apiextensionsclient.Interface) *Kinds {
	return &Kinds{
		definitions: definitions,
		mapper:      restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)),
		changed:     make(chan struct{}, 1),
	}
}

// OnChange registers f to be called after the served kinds may have changed.
func (k *Kinds) OnChange(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers = append(k.handlers, f)
}

// ResourceFor returns the resource by which objects of a kind are watched, at the version that
// the API server prefers, and false if the kind is not served.
func (k *Kinds) ResourceFor(_ context.Context, kind schema.GroupKind) (schema.GroupVersionResource, bool, error) {
	return k.resolve(kind)
}

// VersionedResourceFor returns the resource of a kind at one version, and false if it is not served.
func (k *Kinds) VersionedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return k.resolve(kind.GroupKind(), kind.Version)
}

func (k *Kinds) resolve(kind schema.GroupKind, versions ...string) (schema.GroupVersionResource, bool, error) {
	mapping, err := k.mapper.RESTMapping(kind, versions...)
	switch {
	case apimeta.IsNoMatchError(err):
		return schema.GroupVersionResource{}, false, nil
	case isGroupGone(err):
		return schema.GroupVersionResource{}, false, nil
	case err != nil:
		return schema.GroupVersionResource{}, false, fmt.Errorf("look up kind %s: %w", kind, err)
	}
	return mapping.Resource, true, nil
}

// isGroupGone tells whether discovery failed only because a group stopped being served meanwhile.
func isGroupGone(err error) bool {
	var failed *discovery.ErrGroupDiscoveryFailed
	return errors.As(err, &failed)
}

// Run follows the definitions of kinds until ctx ends.
func (k *Kinds) Run(ctx context.Context) error {
	factory := apiextensionsinformers.NewSharedInformerFactory(k.definitions, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.note() },
		UpdateFunc: k.updated,
		DeleteFunc: func(any) { k.note() },
	})
	if err != nil {
		return fmt.Errorf("follow the definitions of kinds: %w", err)
	}
	factory.StartWithContext(ctx)
	timer := time.NewTimer(refreshInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(refreshInterval)
		case <-k.changed:
			if !settle(ctx) {
				return nil
			}
			timer.Reset(recheckTime)
		}
		k.mapper.Reset()
		k.tell()
	}
}

// settle lets further changes arrive, and reports whether ctx goes on.
func settle(ctx context.Context) bool {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// updated ignores changes that have no bearing on what is served.
func (k *Kinds) updated(before, after any) {
	a, aOK := before.(*apiextensionsv1.CustomResourceDefinition)
	b, bOK := after.(*apiextensionsv1.CustomResourceDefinition)
	if aOK && bOK && a.Generation == b.Generation && isEstablished(a) == isEstablished(b) {
		return
	}
	k.note()
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func (k *Kinds) note() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *Kinds) tell() {
	k.mu.Lock()
	handlers := k.handlers
	k.mu.Unlock()
	for _, handler := range handlers {
		handler()
	}
}
