package grantpolicy

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

const uidIndex = "uid"

// follower is the informer of a kind in the triggers of policies.
type follower struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// policies are the effective policies with this kind. The controller's lock guards them.
	policies map[types.UID]struct{}

	mu sync.Mutex
	// problem is the reason for a failed list of the objects.
	problem error
}

// get returns the object with the UID, or nil.
func (f *follower) get(uid types.UID) *unstructured.Unstructured {
	found, err := f.informer.GetIndexer().ByIndex(uidIndex, string(uid))
	if err != nil || len(found) == 0 {
		return nil
	}
	object, _ := found[0].(*unstructured.Unstructured)
	return object
}

func (f *follower) hasSynced() bool { return f.informer.HasSynced() }

// failure returns the reason for the missing list of the objects, or nil.
func (f *follower) failure() error {
	if f.hasSynced() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

// followLocked makes the kinds in effective policies the followed ones.
func (c *Controller) followLocked() {
	named := map[schema.GroupVersionKind]map[types.UID]struct{}{}
	for uid, s := range c.policies {
		if s.mode != modeApply {
			continue
		}
		kind := s.trigger()
		if f := c.followers[kind]; f == nil || f.resource != s.resource {
			if f != nil {
				f.stop()
				f.policies = nil
			}
			c.followers[kind] = c.startFollower(kind, s.resource)
		}
		if named[kind] == nil {
			named[kind] = map[types.UID]struct{}{}
		}
		named[kind][uid] = struct{}{}
	}
	for kind, f := range c.followers {
		f.policies = named[kind]
		if f.policies == nil {
			f.stop()
			delete(c.followers, kind)
		}
	}
}

func (c *Controller) startFollower(kind schema.GroupVersionKind, resource schema.GroupVersionResource) *follower {
	ctx, stop := context.WithCancel(c.running)
	indexers := cache.Indexers{uidIndex: func(object any) ([]string, error) {
		o, ok := object.(metav1.Object)
		if !ok {
			return nil, nil
		}
		return []string{string(o.GetUID())}, nil
	}}
	f := &follower{kind: kind, resource: resource, stop: stop, policies: map[types.UID]struct{}{}}
	f.informer = dynamicinformer.NewFilteredDynamicInformer(c.Objects, resource, metav1.NamespaceAll, 0, indexers, nil).Informer()
	changed := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(metav1.Object); ok {
			c.objectChanged(f, o.GetUID())
		}
	}
	// The first two fail only once an informer runs, the last one once it has stopped.
	_ = f.informer.SetTransform(withoutFieldManagers)
	_ = f.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { c.listFailed(f, err) })
	handle, _ := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			// The name may belong to another object since.
			if b, ok := before.(metav1.Object); ok && b.GetUID() != after.(metav1.Object).GetUID() {
				changed(before)
			}
			changed(after)
		},
	})
	c.tasks.Go(func() { f.informer.RunWithContext(ctx) })
	c.tasks.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
			c.listed(f)
		}
	})
	return f
}

// withoutFieldManagers drops the field managers. They are large, and policies do not use them.
func withoutFieldManagers(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// objectChanged queues an object for every policy with its kind.
func (c *Controller) objectChanged(f *follower, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range f.policies {
		c.enqueueEvaluationLocked(key{policy, uid})
	}
}

// The follower calls listed after the first list of a kind: objects with earlier grants, but missing in the list, are
// gone.
func (c *Controller) listed(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range f.policies {
		s := c.policies[policy]
		for _, known := range []iter.Seq[types.UID]{maps.Keys(s.outcomes), maps.Keys(s.unevaluated)} {
			for _, uid := range slices.Collect(known) {
				if f.get(uid) == nil {
					c.enqueueEvaluationLocked(key{policy, uid})
				}
			}
		}
		c.applyAllLocked(policy)
		c.wakeLocked(policy)
	}
}

func (c *Controller) listFailed(f *follower, err error) {
	f.mu.Lock()
	f.problem = err
	f.mu.Unlock()
	if f.hasSynced() && !apierrors.IsForbidden(err) {
		return // it had a list before and will have one again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy := range f.policies {
		c.wakeLocked(policy)
	}
}

// wakeLocked queues a policy soon.
func (c *Controller) wakeLocked(policy types.UID) {
	if s := c.policies[policy]; s != nil {
		c.policyQueue.AddAfter(s.object.Name, wakeDelay)
	}
}
