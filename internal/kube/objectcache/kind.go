package objectcache

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// kind follows the objects of one kind. It is the store of its reflector.
type kind struct {
	owner     *Cache
	groupKind schema.GroupKind
	resource  schema.GroupVersionResource
	list      int64 // its number
	stop      context.CancelFunc
	synced    chan struct{}
	syncOnce  sync.Once

	// notifying guards the time from the record of a change until the return of the handlers, so uidOf returns only
	// names already known to the handlers. Handlers may call everything but uidOf.
	notifying sync.RWMutex

	mu     sync.RWMutex
	byName map[types.NamespacedName]types.UID
	uids   map[types.UID]types.NamespacedName
	// deleting are the existing objects whose deletion has begun.
	deleting map[types.UID]struct{}
}

var _ cache.TransformingStore = (*kind)(nil)

// identity is the stored part of an object.
type identity struct {
	types.NamespacedName
	uid        types.UID
	isDeleting bool
}

func (o *Cache) start(ctx context.Context, groupKind schema.GroupKind, resource schema.GroupVersionResource) *kind {
	ctx, cancel := context.WithCancel(ctx)
	k := &kind{
		owner:     o,
		groupKind: groupKind,
		resource:  resource,
		list:      o.lists,
		stop:      cancel,
		synced:    make(chan struct{}),
		byName:    map[types.NamespacedName]types.UID{},
		uids:      map[types.UID]types.NamespacedName{},
		deleting:  map[types.UID]struct{}{},
	}
	client := o.client.Resource(resource)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}, o.client)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, k, cache.ReflectorOptions{
		Name: "protected " + resource.String(),
	})
	go reflector.RunWithContext(ctx)
	return k
}

func (k *kind) uidOf(name types.NamespacedName) (types.UID, bool) {
	k.notifying.RLock()
	defer k.notifying.RUnlock()
	k.mu.RLock()
	defer k.mu.RUnlock()
	uid, ok := k.byName[name]
	return uid, ok
}

func (k *kind) isListed() bool {
	select {
	case <-k.synced:
		return true
	default:
		return false
	}
}

func (k *kind) all(holds func(Object) bool) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for uid, name := range k.uids {
		if !holds(Object{name, uid}) {
			return false
		}
	}
	return true
}

func (k *kind) nameOf(uid types.UID) (types.NamespacedName, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	name, ok := k.uids[uid]
	return name, ok
}

func (k *kind) presence(uid types.UID) Presence {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if _, ok := k.uids[uid]; ok {
		return Present
	}
	if k.isListed() {
		return Absent
	}
	return Unknown
}

// Transformer implements [cache.TransformingStore].
func (k *kind) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return identify(obj) }
}

func identify(obj any) (*identity, error) {
	switch object := obj.(type) {
	case *identity:
		return object, nil
	case *metav1.PartialObjectMetadata:
		name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		return &identity{NamespacedName: name, uid: object.UID, isDeleting: object.DeletionTimestamp != nil}, nil
	default:
		return nil, fmt.Errorf("protected objects: unexpected object of type %T", obj)
	}
}

func (k *kind) Add(obj any) error    { return k.put(obj) }
func (k *kind) Update(obj any) error { return k.put(obj) }
func (k *kind) Resync() error        { return nil }

func (k *kind) put(obj any) error {
	object, err := identify(obj)
	if err != nil {
		return err
	}
	k.notifying.Lock()
	defer k.notifying.Unlock()
	switch before := k.swap(object.NamespacedName, object.uid); before {
	case object.uid:
		notify(k.owner.modified, k.groupKind, object.uid)
	case "":
		notify(k.owner.appeared, k.groupKind, object.uid)
	default:
		notify(k.owner.vanished, k.groupKind, before)
		notify(k.owner.appeared, k.groupKind, object.uid)
	}

	// Also for an object that appears: its deletion may be older than the list.
	if object.isDeleting && k.beginDeletion(object.uid) {
		notify(k.owner.deleting, k.groupKind, object.uid)
	}
	return nil
}

func (k *kind) Delete(obj any) error {
	object, err := identify(obj)
	if err != nil {
		return err
	}
	k.notifying.Lock()
	defer k.notifying.Unlock()
	if before := k.swap(object.NamespacedName, ""); before != "" {
		notify(k.owner.vanished, k.groupKind, before)
	}
	return nil
}

// Replace replaces the objects by a full list.
func (k *kind) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]struct{}, len(list))
	for _, obj := range list {
		object, err := identify(obj)
		if err != nil {
			return err
		}
		listed[object.NamespacedName] = struct{}{}
		if err := k.put(object); err != nil {
			return err
		}
	}
	for _, object := range k.unlisted(listed) {
		if err := k.Delete(object); err != nil {
			return err
		}
	}
	k.syncOnce.Do(func() { close(k.synced) })
	return nil
}

// unlisted returns the known objects missing from listed.
func (k *kind) unlisted(listed map[types.NamespacedName]struct{}) []*identity {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var gone []*identity
	for name, uid := range k.byName {
		if _, ok := listed[name]; !ok {
			gone = append(gone, &identity{NamespacedName: name, uid: uid})
		}
	}
	return gone
}

// swap sets or removes the UID of a name and returns the previous one.
func (k *kind) swap(name types.NamespacedName, uid types.UID) (before types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before = k.byName[name]
	if before != uid {
		delete(k.deleting, before)
	}
	delete(k.uids, before)
	delete(k.byName, name)
	if uid != "" {
		k.byName[name] = uid
		k.uids[uid] = name
	}
	return before
}

// beginDeletion records that the deletion of an object has begun. It reports false if that is known.
func (k *kind) beginDeletion(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, isKnown := k.deleting[uid]; isKnown {
		return false
	}
	k.deleting[uid] = struct{}{}
	return true
}

func (k *kind) isDeleting(uid types.UID) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, isDeleting := k.deleting[uid]
	return isDeleting
}

func notify(handlers []Handler, groupKind schema.GroupKind, uid types.UID) {
	for _, handler := range handlers {
		handler(groupKind, uid)
	}
}

// reportGone removes the object with the name and UID.
func (k *kind) reportGone(name types.NamespacedName, uid types.UID) {
	k.notifying.Lock()
	defer k.notifying.Unlock()
	if known, _ := k.nameOf(uid); known != name {
		return
	}
	k.swap(name, "")
	notify(k.owner.vanished, k.groupKind, uid)
}
