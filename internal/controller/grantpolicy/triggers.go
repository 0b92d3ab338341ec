package grantpolicy

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

const uidIndex = "uid"

// trigger follows the objects of a kind that policies name.
type trigger struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// policies are those in force that name the kind. Guarded by the controller's lock.
	policies map[types.UID]struct{}

	mu sync.Mutex
	// problem is why the objects cannot be listed.
	problem error
}

// get returns the object of that UID, or nil.
func (t *trigger) get(uid types.UID) *unstructured.Unstructured {
	found, err := t.informer.GetIndexer().ByIndex(uidIndex, string(uid))
	if err != nil || len(found) == 0 {
		return nil
	}
	object, _ := found[0].(*unstructured.Unstructured)
	return object
}

func (t *trigger) hasSynced() bool { return t.informer.HasSynced() }

// failure is why the objects have not been listed, or nil.
func (t *trigger) failure() error {
	if t.hasSynced() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// followLocked makes the kinds that are followed those that policies in force name.
func (c *Controller) followLocked() {
	named := map[schema.GroupVersionKind]map[types.UID]struct{}{}
	for uid, s := range c.policies {
		if s.mode != active {
			continue
		}
		kind := s.trigger()
		if t := c.triggers[kind]; t == nil || t.resource != s.resource {
			if t != nil {
				t.stop()
				t.policies = nil
			}
			c.triggers[kind] = c.startTrigger(kind, s.resource)
		}
		if named[kind] == nil {
			named[kind] = map[types.UID]struct{}{}
		}
		named[kind][uid] = struct{}{}
	}
	for kind, t := range c.triggers {
		t.policies = named[kind]
		if t.policies == nil {
			t.stop()
			delete(c.triggers, kind)
		}
	}
}

func (c *Controller) startTrigger(kind schema.GroupVersionKind, resource schema.GroupVersionResource) *trigger {
	ctx, stop := context.WithCancel(c.running)
	indexers := cache.Indexers{uidIndex: func(object any) ([]string, error) {
		o, ok := object.(metav1.Object)
		if !ok {
			return nil, nil
		}
		return []string{string(o.GetUID())}, nil
	}}
	t := &trigger{kind: kind, resource: resource, stop: stop, policies: map[types.UID]struct{}{}}
	t.informer = dynamicinformer.NewFilteredDynamicInformer(c.Objects, resource, metav1.NamespaceAll, 0, indexers, nil).Informer()
	changed := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(metav1.Object); ok {
			c.objectChanged(t, o.GetUID())
		}
	}
	// The first two fail only once an informer runs, the last one once it has stopped.
	_ = t.informer.SetTransform(withoutFieldManagers)
	_ = t.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { c.listFailed(t, err) })
	handle, _ := t.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			// A name may have been given to another object in between.
			if b, ok := before.(metav1.Object); ok && b.GetUID() != after.(metav1.Object).GetUID() {
				changed(before)
			}
			changed(after)
		},
	})
	c.tasks.Go(func() { t.informer.RunWithContext(ctx) })
	c.tasks.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
			c.listed(t)
		}
	})
	return t
}

// withoutFieldManagers drops what takes most room and what no policy looks at.
func withoutFieldManagers(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// objectChanged has an object evaluated by every policy that names its kind.
func (c *Controller) objectChanged(t *trigger, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range t.policies {
		c.enqueueEvaluationLocked(key{policy, uid})
	}
}

// listed is called once all objects of a kind are known: those that grants were made for before,
// and that are not among them, are gone.
func (c *Controller) listed(t *trigger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range t.policies {
		s := c.policies[policy]
		for _, known := range []iter.Seq[types.UID]{maps.Keys(s.outcomes), maps.Keys(s.unseen)} {
			for _, uid := range slices.Collect(known) {
				if t.get(uid) == nil {
					c.enqueueEvaluationLocked(key{policy, uid})
				}
			}
		}
		c.applyAllLocked(policy)
		c.pokeLocked(policy)
	}
}

func (c *Controller) listFailed(t *trigger, err error) {
	t.mu.Lock()
	t.problem = err
	t.mu.Unlock()
	if t.hasSynced() {
		return // it was known and will be again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range t.policies {
		c.pokeLocked(policy)
	}
}

// pokeLocked has a policy's status and finalizers looked at soon.
func (c *Controller) pokeLocked(policy types.UID) {
	if s := c.policies[policy]; s != nil {
		c.policyQueue.AddAfter(s.object.Name, pokeDelay)
	}
}
