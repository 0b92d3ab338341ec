package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/secrets"
	"github.com/bursar/bursar/internal/ledger"
)

// kindWatch watches the objects of one kind, and evaluates the same policies for all of them. It is the store of its
// reflector, which calls it from one goroutine. That of claims gets them from the reflector of the cache of claims.
type kindWatch struct {
	*Watcher
	kind     schema.GroupVersionKind
	name     string
	resource schema.GroupVersionResource
	policies []*catalog.Policy
	// function identifies the policies, and policiesVersion is a version of the catalog with them.
	function        function
	policiesVersion ledger.Version
	usesNamespaces  bool
	target          *inventory.Kind
	// feeding guards the target, so that a watch that was replaced no longer changes it.
	feeding *sync.Mutex

	ctx       context.Context
	stop      context.CancelFunc
	isListed  atomic.Bool
	deletions *deletions
	freshness freshness
	failures  failures

	// listed is the version of the namespaces before the latest list, and recounted is the one that all demands rest on.
	// The latter belongs to whoever holds feeding.
	listed    atomic.Uint64
	recounted ledger.Version
}

var _ cache.TransformingStore = (*kindWatch)(nil)

// counted is an object with its demands.
type counted struct {
	inventory.Object
	isDeleting bool
}

// function identifies the demand of objects by policies.
type function struct {
	policies string
	// units are the base units of the amounts. One of an inactive registration is unknown.
	units    string
	hasUnits bool
}

func (w *Watcher) functionOf(policies []*catalog.Policy) function {
	f := function{hasUnits: true}
	for _, p := range policies {
		f.policies += fmt.Sprintf("%s %s %d;", p.Name, p.UID, p.Generation)
		for _, resourceType := range p.ResourceTypes {
			f.units += fmt.Sprintf("%q;", w.Catalog.BaseUnit(resourceType))
			f.hasUnits = f.hasUnits && w.Catalog.Registration(resourceType) != nil
		}
	}
	return f
}

// covers reports whether a watch by this function need not begin again for another one. Without its registrations the
// other one changes nothing.
func (f function) covers(other function) bool {
	return f.policies == other.policies && (f.units == other.units || !other.hasUnits)
}

func (w *Watcher) newWatch(kind schema.GroupVersionKind, resource schema.GroupVersionResource, by catalog.Counted, function function) *kindWatch {
	ctx, cancel := context.WithCancel(w.ctx)
	name := inventory.NameOf(kind)
	return &kindWatch{
		Watcher: w, kind: kind, name: name, resource: resource, policies: by.Policies, function: function,
		policiesVersion: ledger.Version(by.Version), usesNamespaces: usesNamespaces(by.Policies), ctx: ctx, stop: cancel,
		target: w.Inventory.Add(name, w.subjectOf(kind.GroupKind())), feeding: w.feeding(name), deletions: w.deletionsOf(name), freshness: newFreshness(),
	}
}

func usesNamespaces(policies []*catalog.Policy) bool {
	return slices.ContainsFunc(policies, func(p *catalog.Policy) bool { return p.UsesNamespace() })
}

func (k *kindWatch) has(function function, resource schema.GroupVersionResource) bool {
	return k != nil && k.function.covers(function) && k.resource == resource
}

// run begins to list and watch.
func (k *kindWatch) run() {
	go func() {
		if k.usesNamespaces {
			if err := k.namespaces.waitForList(k.ctx); err != nil {
				return // the watch has ended
			}
		}
		k.newReflector().RunWithContext(k.ctx)
	}()
}

// source lists and watches objects.
type source interface {
	List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// in returns the source of the objects of a namespace, or of all. The content of a Secret is nobody's business.
func (k *kindWatch) in(namespace string) source {
	if k.kind == secrets.Kind {
		return k.Secrets.In(namespace)
	}
	return k.Dynamic.Resource(k.resource).Namespace(namespace)
}

func (k *kindWatch) newReflector() *cache.Reflector {
	source := &cache.ListWatch{ListWithContextFunc: k.beginList, WatchFuncWithContext: k.beginWatch}
	options := cache.ReflectorOptions{Name: "counted " + k.resource.String()}
	expected := &unstructured.Unstructured{}
	expected.SetGroupVersionKind(k.kind)
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, k.Dynamic), expected, k, options)
}

// beginList lists all objects of the kind. Their demands rest on the namespaces as they are now, or later.
func (k *kindWatch) beginList(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	k.noteList()
	return k.list(ctx, metav1.NamespaceAll, o)
}

// noteList notes that a list begins. From now on recounts wait for it, so the inventory never rests on later namespaces
// than the list.
func (k *kindWatch) noteList() {
	k.freshness.setListing(true)
	k.listed.Store(uint64(k.namespaces.version()))
}

// beginWatch watches all objects of the kind. The watch may have a list at its beginning.
func (k *kindWatch) beginWatch(ctx context.Context, o metav1.ListOptions) (opened watch.Interface, err error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		k.noteList()
	}
	opened, err = k.in(metav1.NamespaceAll).Watch(ctx, o)
	if err != nil {
		return nil, err //nolint:wrapcheck // the reflector looks at it
	}
	return k.freshness.follow(opened), nil
}

// list lists the objects of a namespace, or of all.
func (k *kindWatch) list(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	return k.in(namespace).List(ctx, o) //nolint:wrapcheck // the callers do
}

// Transformer implements [cache.TransformingStore]: the list keeps only demands.
func (k *kindWatch) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return k.count(obj) }
}

// Add implements [cache.ReflectorStore].
func (k *kindWatch) Add(obj any) error { return k.put(obj) }

// Update implements [cache.ReflectorStore].
func (k *kindWatch) Update(obj any) error { return k.put(obj) }

// Resync implements [cache.ReflectorStore].
func (k *kindWatch) Resync() error { return nil }

func (k *kindWatch) put(obj any) error {
	defer k.freshness.begin()()
	o, err := k.count(obj)
	if err != nil {
		return err
	}
	consumers, isCurrent := k.feed(func() []quotav1alpha1.ConsumerRef { return k.target.Set(o.Object) })
	if !isCurrent {
		return nil
	}
	k.freshness.moved()
	k.objectChanged(k.kind, o.UID, consumers)
	switch {
	case !o.isDeleting:
	case len(o.Demands) > 0:
		k.deletions.begin(o)
	default:
		k.deletions.end(o.UID)
	}
	return nil
}

// Delete implements [cache.ReflectorStore].
func (k *kindWatch) Delete(obj any) error {
	defer k.freshness.begin()()
	o, err := k.identify(obj)
	if err != nil {
		return err
	}
	consumers, isCurrent := k.feed(func() []quotav1alpha1.ConsumerRef { return k.target.Delete(o) })
	if !isCurrent {
		return nil
	}
	k.freshness.moved()
	k.failures.remove(o.UID)
	k.objectChanged(k.kind, o.UID, consumers)
	k.deletions.end(o.UID)
	return nil
}

// identify returns an object without what it demands.
func (k *kindWatch) identify(obj any) (o inventory.Object, err error) {
	if claim, isClaim := obj.(*claimcache.Claim); isClaim {
		return claims.ObjectOf(claim), nil
	}
	object, err := unstructuredOf(obj)
	if err != nil {
		return o, err
	}
	return objectOf(evaluator.ObjectOf(k.kind, object), object)
}

func objectOf(about evaluator.Object, object *unstructured.Unstructured) (o inventory.Object, err error) {
	o = inventory.Object{NamespacedName: about.Name, UID: about.UID, Created: object.GetCreationTimestamp().Time}
	o.Version, err = ledger.ParseVersion(object.GetResourceVersion())
	return o, err
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater]: bookmarks show that nothing else has changed.
func (k *kindWatch) UpdateResourceVersion(resourceVersion string) {
	version, err := ledger.ParseVersion(resourceVersion)
	if err != nil || !k.isListed.Load() {
		return
	}
	k.feed(func() []quotav1alpha1.ConsumerRef {
		k.target.Advance(version)
		return nil
	})
	k.freshness.moved()
}

// feed changes the inventory, unless another watch has taken over.
func (k *kindWatch) feed(change func() []quotav1alpha1.ConsumerRef) (consumers []quotav1alpha1.ConsumerRef, isCurrent bool) {
	k.feeding.Lock()
	defer k.feeding.Unlock()
	if k.ctx.Err() != nil {
		return nil, false
	}
	return change(), true
}

// errOldList means that the list is older than what the inventory has.
var errOldList = errors.New("the list of objects is older than the inventory: it is listed again")

// Replace implements [cache.ReflectorStore]. The first list makes this watch the current one of its kind.
func (k *kindWatch) Replace(list []any, resourceVersion string) error {
	defer k.freshness.begin()()
	version, err := ledger.ParseVersion(resourceVersion)
	if err != nil {
		return err
	}

	objects, all := make([]inventory.Object, 0, len(list)), make([]*counted, 0, len(list))
	for _, obj := range list {
		o, err := k.count(obj)
		if err != nil {
			return err
		}
		objects, all = append(objects, o.Object), append(all, o)
	}

	consumers, err := k.replace(version, objects)
	if err != nil || k.ctx.Err() != nil {
		return err
	}

	k.freshness.setListing(false)
	k.failures.retain(objects)
	k.deletions.replace(all)
	k.freshness.moved()
	k.kindChanged(k.name, consumers)
	k.Wake() // policies and namespaces may have later versions by now
	return nil
}
