package quotacache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/bursar/bursar/internal/allocation"
)

// Run follows the API server until ctx ends.
func (p *Cache) Run(ctx context.Context) {
	var group, unsynced sync.WaitGroup
	defer group.Wait()
	follow := func(resource string, example any, store store) {
		unsynced.Add(1)
		store.synced = sync.OnceFunc(unsynced.Done)
		source := cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), resource, metav1.NamespaceAll, fields.Everything())
		reflector := cache.NewReflectorWithOptions(source, example, store, cache.ReflectorOptions{Name: resource})
		group.Go(func() { reflector.RunWithContext(ctx) })
	}
	follow("namespaces", &corev1.Namespace{}, store{
		put: p.putNamespace, remove: p.removeNamespace, replace: p.replaceNamespaces, bookmark: func(version string) { p.changeNamespaces(version, func() {}) },
	})
	follow("resourcequotas", &corev1.ResourceQuota{}, store{
		put: p.putQuota, remove: p.removeQuota, replace: p.replaceQuotas, bookmark: func(version string) { p.changeQuotas(version, func() {}) },
	})
	group.Go(func() {
		unsynced.Wait()
		close(p.synced)
	})
}

// store is what a reflector writes to. It hands on each change together with the resource version at which
// everything is then: that of the object that was changed, or of the list that replaces everything.
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

func (p *Cache) isExempt(namespace string) bool { return slices.Contains(p.exempt, namespace) }

func (p *Cache) putNamespace(o metav1.Object) {
	p.changeNamespaces(o.GetResourceVersion(), func() {
		if !p.isExempt(o.GetName()) {
			p.labels[o.GetName()] = labelsOf(o)
		}
	}, o.GetName())
}

func (p *Cache) removeNamespace(o metav1.Object) {
	p.changeNamespaces(o.GetResourceVersion(), func() { delete(p.labels, o.GetName()) }, o.GetName())
}

func (p *Cache) replaceNamespaces(objects []metav1.Object, version string) {
	p.mu.RLock()
	names := slices.Collect(maps.Keys(p.labels))
	p.mu.RUnlock()
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	p.changeNamespaces(version, func() {
		clear(p.labels)
		for _, o := range objects {
			if !p.isExempt(o.GetName()) {
				p.labels[o.GetName()] = labelsOf(o)
			}
		}
	}, slices.Compact(names)...)
}

// labelsOf returns labels that are never nil, which stands for a namespace that is not there.
func labelsOf(o metav1.Object) labels.Set {
	set := labels.Set{}
	maps.Copy(set, o.GetLabels())
	return set
}

// changeNamespaces makes a change after which everything is as at a version, and tells which of the namespaces
// that are named are different. What is known already, from a list of later, it leaves out.
func (p *Cache) changeNamespaces(version string, change func(), names ...string) {
	p.mu.Lock()
	if isKnown(version, p.versions.Namespaces) {
		p.mu.Unlock()
		return
	}
	before := make([]labels.Set, len(names))
	for i, name := range names {
		before[i] = p.labels[name]
	}
	change()
	p.versions.Namespaces = version
	after := make([]labels.Set, len(names))
	for i, name := range names {
		after[i] = p.labels[name]
	}
	p.mu.Unlock()
	for i := range names {
		if (before[i] == nil) != (after[i] == nil) || !maps.Equal(before[i], after[i]) {
			p.tell(before[i], after[i])
		}
	}
}

// isKnown tells whether everything that was so at a version was known by another.
func isKnown(version, by string) bool {
	order, err := resourceversion.CompareResourceVersion(version, by)
	return err == nil && order < 0
}

func (p *Cache) tell(before, after labels.Set) {
	for _, handler := range p.handlers {
		handler(before, after)
	}
}

func (p *Cache) putQuota(o metav1.Object) {
	p.changeQuotas(o.GetResourceVersion(), func() { p.setQuotaLocked(o) }, o.GetNamespace())
}

func (p *Cache) removeQuota(o metav1.Object) {
	p.gone.Set(o.GetUID(), nil, goneTime)
	p.changeQuotas(o.GetResourceVersion(), func() {
		delete(p.quotas[o.GetNamespace()], o.GetName())
		if len(p.quotas[o.GetNamespace()]) == 0 {
			delete(p.quotas, o.GetNamespace())
		}
	}, o.GetNamespace())
}

func (p *Cache) replaceQuotas(objects []metav1.Object, version string) {
	p.mu.RLock()
	namespaces := slices.Collect(maps.Keys(p.quotas))
	p.mu.RUnlock()
	for _, o := range objects {
		namespaces = append(namespaces, o.GetNamespace())
	}
	slices.Sort(namespaces)
	p.changeQuotas(version, func() {
		clear(p.quotas)
		for _, o := range objects {
			p.setQuotaLocked(o)
		}
	}, slices.Compact(namespaces)...)
}

func (p *Cache) setQuotaLocked(o metav1.Object) {
	object, ok := o.(*corev1.ResourceQuota)
	if !ok || p.isExempt(o.GetNamespace()) {
		return
	}
	inside := p.quotas[object.Namespace]
	if inside == nil {
		inside = map[string]*resourceQuota{}
		p.quotas[object.Namespace] = inside
	}
	inside[object.Name] = &resourceQuota{
		version: allocation.QuotaVersion{UID: object.UID, ResourceVersion: object.ResourceVersion},
		scopes:  allocation.ScopesOf(&object.Spec), hard: object.Spec.Hard,
	}
}

// changeQuotas is changeNamespaces for what the ResourceQuotas give of the namespaces that are named.
func (p *Cache) changeQuotas(version string, change func(), namespaces ...string) {
	p.mu.Lock()
	if isKnown(version, p.versions.ResourceQuotas) {
		p.mu.Unlock()
		return
	}
	before := make([]map[string]*resourceQuota, len(namespaces))
	for i, namespace := range namespaces {
		before[i] = maps.Clone(p.quotas[namespace])
	}
	change()
	p.versions.ResourceQuotas = version
	var changed []labels.Set
	for i, namespace := range namespaces {
		set := p.labels[namespace]
		if set != nil && !maps.EqualFunc(before[i], p.quotas[namespace], (*resourceQuota).isSame) {
			changed = append(changed, set)
		}
	}
	p.mu.Unlock()
	for _, set := range changed {
		p.tell(set, set)
	}
}
