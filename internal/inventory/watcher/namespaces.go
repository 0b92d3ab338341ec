package watcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/bursar/bursar/internal/ledger"
)

// namespaces has the metadata of all namespaces as policies see it. It is the store of its reflector, which starts with
// the first policy that reads namespaces.
type namespaces struct {
	client metadata.Interface
	log    logr.Logger
	// onChange is called after the labels or annotations of a namespace have changed. Set it before use.
	onChange func()

	start    sync.Once
	listed   chan struct{}
	isListed atomic.Bool

	mu     sync.RWMutex
	at     ledger.Version
	byName map[string]namespace
	// early are those that the API server had before the watch showed them.
	early map[string]namespace
	// gone are names of deleted namespaces, whose objects may still have events on their way.
	gone *lru.Cache
}

// goneMax bounds the remembered names of deleted namespaces.
const goneMax = 1024

// namespace is a namespace as of its version.
type namespace struct {
	object *metav1.PartialObjectMetadata
	// content is the object as policies see it. Nobody may change it.
	content map[string]any
	// changed is the version of the latest change that policies may see.
	changed ledger.Version
}

var _ cache.TransformingStore = (*namespaces)(nil)

var namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")

func newNamespaces(client metadata.Interface, log logr.Logger) *namespaces {
	return &namespaces{
		client: client, log: log, onChange: func() {}, listed: make(chan struct{}),
		byName: map[string]namespace{}, early: map[string]namespace{}, gone: lru.New(goneMax),
	}
}

// run starts the reflector until ctx ends, unless it runs.
func (n *namespaces) run(ctx context.Context) {
	n.start.Do(func() {
		resource := n.client.Resource(namespacesResource)
		source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(ctx, o)
			},
		}, n.client)
		reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, n, cache.ReflectorOptions{Name: "namespaces of counted objects"})
		go reflector.RunWithContext(ctx)
	})
}

// waitForList waits for the first list.
func (n *namespaces) waitForList(ctx context.Context) error {
	select {
	case <-n.listed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of namespaces: %w", ctx.Err())
	}
}

// version returns the version up to which all changes are known.
func (n *namespaces) version() ledger.Version {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.at
}

// changedSince returns the present version, and the namespaces that have changed since an earlier one.
func (n *namespaces) changedSince(earlier ledger.Version) (version ledger.Version, changed []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for name, known := range n.byName {
		if known.changed > earlier {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return n.at, changed
}

// object returns a namespace as policies see it. It is nil if the namespace does not exist: then its objects are about
// to go.
//
// The watch of an object may be ahead of that of namespaces, so a missing namespace may appear in a moment. If it does
// not, the API server has it. The other objects in it do not wait again, because they all wait behind one another.
func (n *namespaces) object(ctx context.Context, name string) (content map[string]any, err error) {
	content, isKnown := n.known(name)
	if isKnown {
		return content, nil
	}
	const poll, timeout = 2 * time.Millisecond, 100 * time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, poll, timeout, false, func(context.Context) (bool, error) {
		content, isKnown = n.known(name)
		return isKnown, nil
	})
	if err == nil {
		return content, nil
	}
	return n.read(ctx, name)
}

// read reads a namespace that the watch does not show yet, and remembers it until then.
func (n *namespaces) read(ctx context.Context, name string) (map[string]any, error) {
	object, err := n.client.Resource(namespacesResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up namespace %s: %w", name, err)
	}
	found, err := namespaceOf(object)
	if err != nil {
		return nil, err
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byName[name].object == nil {
		n.early[name] = found
	}
	return found.content, nil
}

// namespaceOf makes a namespace of an object, without its managed fields.
func namespaceOf(object *metav1.PartialObjectMetadata) (namespace, error) {
	object.ManagedFields = nil
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return namespace{}, fmt.Errorf("convert namespace %s: %w", object.Name, err)
	}
	return namespace{object: object, content: content}, nil
}

// known returns a namespace that exists, or nil for one that is gone. It reports false if neither is known.
func (n *namespaces) known(name string) (content map[string]any, isKnown bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, known := range []map[string]namespace{n.byName, n.early} {
		if found, exists := known[name]; exists {
			return found.content, true
		}
	}
	_, isGone := n.gone.Get(name)
	return nil, isGone
}

// confirm raises the version if the API server has the same namespaces.
func (n *namespaces) confirm(ctx context.Context) {
	if !n.isListed.Load() {
		return
	}
	live, err := n.client.Resource(namespacesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		n.log.Error(err, "cannot compare the namespaces with those of the API server, will try again")
		return
	}
	version, err := ledger.ParseVersion(live.ResourceVersion)
	if err != nil {
		return
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	isSame := func(item *metav1.PartialObjectMetadata) bool {
		known := n.byName[item.Name].object
		return known != nil && known.UID == item.UID && known.ResourceVersion == item.ResourceVersion
	}
	for i := range live.Items {
		if !isSame(&live.Items[i]) {
			return
		}
	}
	if len(live.Items) == len(n.byName) {
		n.at = max(n.at, version)
	}
}

// Transformer implements [cache.TransformingStore].
func (n *namespaces) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if object, is := obj.(*metav1.PartialObjectMetadata); is {
			object.ManagedFields = nil
		}
		return obj, nil
	}
}

// Add implements [cache.ReflectorStore].
func (n *namespaces) Add(obj any) error { return n.put(obj) }

// Update implements [cache.ReflectorStore].
func (n *namespaces) Update(obj any) error { return n.put(obj) }

// Resync implements [cache.ReflectorStore].
func (n *namespaces) Resync() error { return nil }

func (n *namespaces) put(obj any) error {
	n.mu.Lock()
	err := n.putLocked(obj)
	n.mu.Unlock()
	n.onChange() // requests may rest on this version
	return err
}

func (n *namespaces) putLocked(obj any) error {
	object, is := obj.(*metav1.PartialObjectMetadata)
	if !is {
		return fmt.Errorf("namespaces: unexpected object of type %T", obj)
	}
	version, err := ledger.ParseVersion(object.ResourceVersion)
	if err != nil {
		return err
	}
	after, err := namespaceOf(object)
	if err != nil {
		return err
	}

	before, isKnown := n.byName[object.Name]
	if !isKnown {
		before, isKnown = n.early[object.Name]
	}
	_, isBack := n.gone.Get(object.Name) // its first objects may have been counted by the former one
	switch {
	case isKnown && !differ(before.object, object):
		after.changed = before.changed
	case isKnown || isBack:
		after.changed = version
	}

	n.byName[object.Name] = after
	delete(n.early, object.Name)
	n.gone.Remove(object.Name)
	if n.isListed.Load() { // the versions of a list are in no order
		n.at = max(n.at, version)
	}
	return nil
}

// differ reports whether policies may see a difference of two versions of a namespace.
func differ(a, b *metav1.PartialObjectMetadata) bool {
	x, y := a.ObjectMeta.DeepCopy(), b.ObjectMeta.DeepCopy()
	x.ResourceVersion, y.ResourceVersion = "", ""
	return !equality.Semantic.DeepEqual(x, y)
}

// Delete implements [cache.ReflectorStore].
func (n *namespaces) Delete(obj any) error {
	object, is := obj.(*metav1.PartialObjectMetadata)
	if !is {
		return fmt.Errorf("namespaces: unexpected object of type %T", obj)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byName, object.Name)
	delete(n.early, object.Name)
	n.gone.Add(object.Name, nil)
	if version, err := ledger.ParseVersion(object.ResourceVersion); err == nil {
		n.at = max(n.at, version)
	}
	return nil
}

// Replace implements [cache.ReflectorStore].
func (n *namespaces) Replace(list []any, resourceVersion string) error {
	version, err := ledger.ParseVersion(resourceVersion)
	if err != nil {
		return err
	}

	names := map[string]struct{}{}
	n.mu.Lock()
	before := n.at
	for _, obj := range list {
		if err := n.putLocked(obj); err != nil {
			n.mu.Unlock()
			return err
		}
		names[obj.(*metav1.PartialObjectMetadata).Name] = struct{}{}
	}
	n.at = before
	maps.DeleteFunc(n.byName, func(name string, _ namespace) bool {
		_, exists := names[name]
		return !exists
	})
	clear(n.early) // each is in the list, or gone, or comes with the watch
	n.at = max(n.at, version)
	n.mu.Unlock()

	if !n.isListed.Swap(true) {
		close(n.listed)
	}
	n.onChange()
	return nil
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater].
func (n *namespaces) UpdateResourceVersion(resourceVersion string) {
	if version, err := ledger.ParseVersion(resourceVersion); err == nil && n.isListed.Load() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.at = max(n.at, version)
	}
}
