package quotacache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/bursar/bursar/internal/allocation"
)

// Run watches the API server until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	var missing atomic.Int32
	missing.Store(2) // the lists of namespaces and ResourceQuotas
	follow := func(resource string, example any, store store) {
		store.synced = sync.OnceFunc(func() {
			if missing.Add(-1) == 0 {
				close(c.synced)
			}
		})
		source := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), resource, metav1.NamespaceAll, fields.Everything())
		reflector := cache.NewReflectorWithOptions(source, example, store, cache.ReflectorOptions{Name: resource})
		group.Go(func() { reflector.RunWithContext(ctx) })
	}
	follow("namespaces", &corev1.Namespace{}, store{
		put: c.putNamespace, remove: c.removeNamespace, replace: c.replaceNamespaces, bookmark: func(version string) { c.changeNamespaces(version, func() {}) },
	})
	follow("resourcequotas", &corev1.ResourceQuota{}, store{
		put: c.putQuota, remove: c.removeQuota, replace: c.replaceQuotas, bookmark: func(version string) { c.changeQuotas(version, func() {}) },
	})
}

// store receives the events of a reflector. It passes on each change with the resource version of the whole cache after
// it. This is the version of the changed object, or of the list instead of everything.
type store struct {
	put, remove func(metav1.Object)
	replace     func(objects []metav1.Object, version string)
	bookmark    func(version string)
	synced      func()
}

var (
	_ cache.ReflectorStore         = store{}
	_ cache.ReflectorBookmarkStore = store{}
)

// Bookmark implements [cache.ReflectorBookmarkStore]: nothing changed up to a version.
func (s store) Bookmark(version string) error {
	s.bookmark(version)
	return nil
}

func (s store) Add(object any) error    { return with(object, s.put) }
func (s store) Update(object any) error { return with(object, s.put) }
func (s store) Delete(object any) error { return with(object, s.remove) }
func (s store) Resync() error           { return nil }

func (s store) Replace(list []any, version string) error {
	objects := make([]metav1.Object, 0, len(list))
	for _, object := range list {
		if err := with(object, func(o metav1.Object) { objects = append(objects, o) }); err != nil {
			return err
		}
	}
	s.replace(objects, version)
	s.synced()
	return nil
}

func with(object any, f func(metav1.Object)) error {
	o, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("unexpected object of type %T", object)
	}
	f(o)
	return nil
}

func (c *Cache) isExempt(namespace string) bool { return slices.Contains(c.exempt, namespace) }

func (c *Cache) putNamespace(o metav1.Object) {
	c.changeNamespaces(o.GetResourceVersion(), func() {
		if !c.isExempt(o.GetName()) {
			c.labels[o.GetName()] = labelsOf(o)
		}
	}, o.GetName())
}

func (c *Cache) removeNamespace(o metav1.Object) {
	c.changeNamespaces(o.GetResourceVersion(), func() { delete(c.labels, o.GetName()) }, o.GetName())
}

func (c *Cache) replaceNamespaces(objects []metav1.Object, version string) {
	c.mu.RLock()
	names := slices.Collect(maps.Keys(c.labels))
	c.mu.RUnlock()
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	c.changeNamespaces(version, func() {
		clear(c.labels)
		for _, o := range objects {
			if !c.isExempt(o.GetName()) {
				c.labels[o.GetName()] = labelsOf(o)
			}
		}
	}, slices.Compact(names)...)
}

// labelsOf returns labels, never nil: nil stands for a missing namespace.
func labelsOf(o metav1.Object) labels.Set {
	set := labels.Set{}
	maps.Copy(set, o.GetLabels())
	return set
}

// changeNamespaces makes a change that brings the cache to version, and notifies handlers of the changed ones among the
// named namespaces. It skips a change already in a later list.
func (c *Cache) changeNamespaces(version string, change func(), names ...string) {
	c.mu.Lock()
	if isOlder(version, c.versions.Namespaces) {
		c.mu.Unlock()
		return
	}
	before := make([]labels.Set, len(names))
	for i, name := range names {
		before[i] = c.labels[name]
	}
	change()
	c.versions.Namespaces = version
	after := make([]labels.Set, len(names))
	for i, name := range names {
		after[i] = c.labels[name]
	}
	c.mu.Unlock()
	for i := range names {
		if (before[i] == nil) != (after[i] == nil) || !maps.Equal(before[i], after[i]) {
			c.notify(before[i], after[i])
		}
	}
}

// isOlder reports whether version is older than another one.
func isOlder(version, by string) bool {
	order, err := resourceversion.CompareResourceVersion(version, by)
	return err == nil && order < 0
}

func (c *Cache) notify(before, after labels.Set) {
	for _, handler := range c.handlers {
		handler(before, after)
	}
}

func (c *Cache) putQuota(o metav1.Object) {
	c.changeQuotas(o.GetResourceVersion(), func() { c.setQuotaLocked(o) }, o.GetNamespace())
}

func (c *Cache) removeQuota(o metav1.Object) {
	c.deleted.Set(o.GetUID(), nil, deletedTTL)
	c.changeQuotas(o.GetResourceVersion(), func() {
		delete(c.quotas[o.GetNamespace()], o.GetName())
		if len(c.quotas[o.GetNamespace()]) == 0 {
			delete(c.quotas, o.GetNamespace())
		}
	}, o.GetNamespace())
}

func (c *Cache) replaceQuotas(objects []metav1.Object, version string) {
	c.mu.RLock()
	namespaces := slices.Collect(maps.Keys(c.quotas))
	c.mu.RUnlock()
	for _, o := range objects {
		namespaces = append(namespaces, o.GetNamespace())
	}
	slices.Sort(namespaces)
	c.changeQuotas(version, func() {
		clear(c.quotas)
		for _, o := range objects {
			c.setQuotaLocked(o)
		}
	}, slices.Compact(namespaces)...)
}

func (c *Cache) setQuotaLocked(o metav1.Object) {
	object, ok := o.(*corev1.ResourceQuota)
	if !ok || c.isExempt(o.GetNamespace()) {
		return
	}
	inside := c.quotas[object.Namespace]
	if inside == nil {
		inside = map[string]*resourceQuota{}
		c.quotas[object.Namespace] = inside
	}
	inside[object.Name] = &resourceQuota{
		version: allocation.QuotaVersion{UID: object.UID, ResourceVersion: object.ResourceVersion},
		scopes:  allocation.ScopesOf(&object.Spec), hard: allocation.Limits(object.Spec.Hard),
	}
}

// changeQuotas is changeNamespaces for the ResourceQuotas of the named namespaces.
func (c *Cache) changeQuotas(version string, change func(), namespaces ...string) {
	c.mu.Lock()
	if isOlder(version, c.versions.ResourceQuotas) {
		c.mu.Unlock()
		return
	}
	before := make([]map[string]*resourceQuota, len(namespaces))
	for i, namespace := range namespaces {
		before[i] = maps.Clone(c.quotas[namespace])
	}
	change()
	c.versions.ResourceQuotas = version
	var changed []labels.Set
	for i, namespace := range namespaces {
		set := c.labels[namespace]
		if set != nil && !maps.EqualFunc(before[i], c.quotas[namespace], (*resourceQuota).isSame) {
			changed = append(changed, set)
		}
	}
	c.mu.Unlock()
	for _, set := range changed {
		c.notify(set, set)
	}
}
