package watcher

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/secrets"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// checkInterval is the time between two checks of the counted kinds without an event.
	checkInterval = 10 * time.Second
	// refreshInterval is the time between two lists of the policies and namespaces.
	refreshInterval = 250 * time.Millisecond
)

var policiesResource = quotav1alpha1.GroupVersion.WithResource("claimcreationpolicies")

// Watcher keeps an inventory. Set its fields once, and then run it.
type Watcher struct {
	Inventory *inventory.Inventory
	Catalog   *catalog.Catalog
	Resolver  discoverycache.Resolver
	// Definitions tells which kinds exist.
	Definitions Definitions
	// Dynamic reads whole objects, Secrets those without their content, and Metadata namespaces and versions.
	Dynamic  dynamic.Interface
	Secrets  *secrets.Client
	Metadata metadata.Interface
	// Claims gets all claims of record through ClaimClient while the watcher runs, together with the inventory.
	Claims      *claimcache.Cache
	ClaimClient rest.Interface
	// APIReader reads policies from the API server.
	APIReader       client.Reader
	SystemNamespace string
	// Listener hears of every change.
	Listener Listener
	Log      logr.Logger

	handlers []func(kind schema.GroupVersionKind, uid types.UID)

	ctx        context.Context // of Run
	namespaces *namespaces
	wake       chan struct{}
	refresh    chan struct{}

	isRunning atomic.Bool

	mu sync.Mutex
	// current are the watches that fill the inventory, by the name of the kind, and next those that take over from them
	// once they have their list.
	current, next map[string]*kindWatch
	// undefined are the counted kinds that nothing defines, with a version at which none of their objects existed.
	undefined map[string]ledger.Version
	// feeds guard the inventories of kinds, see [kindWatch.feed].
	feeds     map[string]*sync.Mutex
	deletions map[string]*deletions

	claimSubjects *lru.Cache
}

// Listener hears of changes of the inventory. It must return quickly.
type Listener interface {
	// ObjectChanged is called after an object has a new version or is gone. consumers are those whose demand has changed.
	ObjectChanged(uid types.UID, consumers []quotav1alpha1.ConsumerRef)
	// KindChanged is called after demand may have changed for these consumers, and after the inventory of a kind rests on
	// later policies or namespaces.
	KindChanged(kind string, consumers []quotav1alpha1.ConsumerRef)
	// DeletionBegan is called when the deletion of an object begins that demands something of these consumers. The object
	// may stay for a while. DeletionEnded is called once it is gone.
	DeletionBegan(uid types.UID, consumers []quotav1alpha1.ConsumerRef)
	DeletionEnded(uid types.UID, consumers []quotav1alpha1.ConsumerRef)
}

// Definitions tells which kinds exist.
type Definitions interface {
	// IsUndefined reports whether a kind certainly has no objects, because nothing defines it.
	IsUndefined(ctx context.Context, kind schema.GroupKind) bool
}

// Start prepares the watcher. Call it before anything else.
func (w *Watcher) Start() {
	w.wake, w.refresh = make(chan struct{}, 1), make(chan struct{}, 1)
	w.current, w.next, w.undefined = map[string]*kindWatch{}, map[string]*kindWatch{}, map[string]ledger.Version{}
	w.feeds, w.deletions = map[string]*sync.Mutex{}, map[string]*deletions{}
	w.namespaces = newNamespaces(w.Metadata, w.Log)
	w.claimSubjects = lru.New(claimSubjectsMax)
}

// OnChange registers f. The watcher calls it after the demand of an object has changed, or the object is gone. The UID
// is empty if the demand of any object of the kind may have changed. f must return quickly. Call OnChange before Run.
func (w *Watcher) OnChange(f func(kind schema.GroupVersionKind, uid types.UID)) {
	w.handlers = append(w.handlers, f)
}

// objectChanged tells everybody that an object has changed.
func (w *Watcher) objectChanged(kind schema.GroupVersionKind, uid types.UID, consumers []quotav1alpha1.ConsumerRef) {
	w.Listener.ObjectChanged(uid, consumers)
	for _, f := range w.handlers {
		f(kind, uid)
	}
}

// kindChanged tells everybody that any object of a kind may have changed.
func (w *Watcher) kindChanged(name string, consumers []quotav1alpha1.ConsumerRef) {
	w.Listener.KindChanged(name, consumers)
	for _, f := range w.handlers {
		f(inventory.KindNamed(name), "")
	}
}

// Wake requests a check of the counted kinds and of their policies soon.
func (w *Watcher) Wake() { signal(w.wake) }

// Refresh requests to find out whether the policies and namespaces known here are those of the API server. Call it when
// another process has observed by later versions of them.
func (w *Watcher) Refresh() { signal(w.refresh) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends. The catalog must have all policies.
func (w *Watcher) Run(ctx context.Context) error {
	w.ctx, w.namespaces.onChange = ctx, w.Wake
	w.isRunning.Store(true)
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	w.confirmPolicies(ctx)
	refreshed := time.Now()
	for {
		w.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-w.refresh:
			if early := refreshInterval - time.Since(refreshed); early > 0 {
				time.AfterFunc(early, w.Refresh)
				continue
			}
			refreshed = time.Now()
			w.confirmPolicies(ctx)
			w.namespaces.confirm(ctx)
		case <-w.wake:
		case <-ticker.C:
		}
	}
}

// confirmPolicies raises the version of the policies if the API server has the same ones.
func (w *Watcher) confirmPolicies(ctx context.Context) {
	var live quotav1alpha1.ClaimCreationPolicyList
	if err := w.APIReader.List(ctx, &live); err != nil {
		w.Log.Error(err, "cannot compare the policies with those of the API server, will try again")
		return
	}
	version, err := ledger.ParseVersion(live.ResourceVersion)
	if err != nil {
		w.Log.Error(err, "cannot read the version of the policies")
		return
	}
	if !w.Catalog.ConfirmPolicies(live.Items, uint64(version)) {
		w.Refresh() // the watch shows the rest in a moment
	}
}

// check starts and ends watches as the policies demand it.
func (w *Watcher) check(ctx context.Context) {
	w.watchClaims()
	counted := w.Catalog.CountedKinds()
	for _, kind := range counted {
		w.checkKind(ctx, kind)
	}
	w.forgetUndefined(counted)
	for name, watch := range w.running() {
		if name != inventory.Claims && !slices.Contains(counted, watch.kind) && w.Catalog.Counted(watch.kind).IsSettled && !w.hasSuccessor(watch.kind) {
			w.end(name)
		}
	}
}

// hasSuccessor reports whether the objects of a kind are about to count as those of another version of the kind, which
// has no list yet. Until then they count as before: otherwise all of their quota would be free for a moment.
func (w *Watcher) hasSuccessor(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(w.Catalog.CountedKinds(), func(other schema.GroupVersionKind) bool {
		name := inventory.NameOf(other)
		return other != kind && other.GroupKind() == kind.GroupKind() && !w.IsListed(name) && w.undefinedAt(name) == 0
	})
}

// forgetUndefined forgets which kinds are undefined, apart from the counted ones.
func (w *Watcher) forgetUndefined(counted []schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.undefined, func(name string, _ ledger.Version) bool {
		return !slices.Contains(counted, inventory.KindNamed(name))
	})
}

// running returns the current and next watches, one for each kind.
func (w *Watcher) running() map[string]*kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.next)
	maps.Copy(all, w.current)
	return all
}

// checkKind makes the inventory of a kind follow the policies.
func (w *Watcher) checkKind(ctx context.Context, kind schema.GroupVersionKind) {
	counted := w.Catalog.Counted(kind)
	if !counted.IsSettled {
		return // whoever settles it writes the status of the policy
	}
	resource, isServed, err := w.Resolver.VersionedResourceFor(ctx, kind)
	if err != nil {
		w.Log.Error(err, "cannot tell whether to count the objects of a kind, will try again", "kind", kind.String())
		return
	}
	name := inventory.NameOf(kind)
	if !isServed {
		w.checkUndefined(ctx, kind)
		return
	}

	w.setUndefined(name, 0)
	function := w.functionOf(counted.Policies)
	if usesNamespaces(counted.Policies) {
		w.namespaces.run(w.ctx)
	}
	w.mu.Lock()
	current, next := w.current[name], w.next[name]
	isNew := current == nil && next == nil || next != nil && !next.has(function, resource) || next == nil && !current.has(function, resource)
	if isNew {
		if next != nil {
			next.stop()
		}
		w.next[name] = w.newWatch(kind, resource, counted, function)
		w.next[name].run()
	}
	w.mu.Unlock()

	if !isNew && current != nil && next == nil {
		current.confirm(ctx, ledger.Version(counted.Version))
	}
}

// checkUndefined ends the count of a kind that nothing defines. All definitions have their versions from the same etcd
// as the policies. So objects of a later definition have later versions than the policies had before the look.
func (w *Watcher) checkUndefined(ctx context.Context, kind schema.GroupVersionKind) {
	version, err := w.liveVersion(ctx, policiesResource)
	if err != nil {
		w.Log.Error(err, "cannot tell at which version a kind is undefined, will try again", "kind", kind.String())
		return
	}
	if w.Definitions.IsUndefined(ctx, kind.GroupKind()) {
		w.end(inventory.NameOf(kind))
		w.setUndefined(inventory.NameOf(kind), version)
	}
}

// setUndefined notes that nothing defined a kind at a version, or with 0 that something does.
func (w *Watcher) setUndefined(name string, at ledger.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undefined[name] = at
}

// undefinedAt returns a version at which nothing defined a kind, or 0.
func (w *Watcher) undefinedAt(name string) ledger.Version {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.undefined[name]
}

// deletionsOf returns the deletions of a kind that all of its watches share. The caller holds w.mu.
func (w *Watcher) deletionsOf(name string) *deletions {
	if w.deletions[name] == nil {
		w.deletions[name] = newDeletions(w.Listener)
	}
	return w.deletions[name]
}

// feeding returns the lock that all watches of a kind share. The caller holds w.mu.
func (w *Watcher) feeding(name string) *sync.Mutex {
	if w.feeds[name] == nil {
		w.feeds[name] = &sync.Mutex{}
	}
	return w.feeds[name]
}

// takeOver makes a watch with its first list the current one, and ends the one before.
func (w *Watcher) takeOver(watch *kindWatch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current[watch.name] == watch {
		return true
	}
	if w.next[watch.name] != watch {
		return false // another one is to follow
	}
	if before := w.current[watch.name]; before != nil {
		before.stop()
	}
	w.current[watch.name] = watch
	delete(w.next, watch.name)
	return true
}

// end stops counting the objects of a kind.
func (w *Watcher) end(name string) {
	w.mu.Lock()
	current, next, ended := w.current[name], w.next[name], w.deletions[name]
	delete(w.current, name)
	delete(w.next, name)
	w.mu.Unlock()
	for _, watch := range []*kindWatch{current, next} {
		if watch != nil {
			watch.stop()
		}
	}
	if ended != nil {
		ended.replace(nil)
	}
	w.kindChanged(name, w.Inventory.Remove(name))
}

// IsRetired reports whether nothing counts the objects of a kind any more, as far as its observation by others goes:
// either the policies have changed since, or nothing defines the kind. If another version of the kind counts now, that
// has a list first.
func (w *Watcher) IsRetired(name string, observed ledger.Basis) bool {
	if name == inventory.Claims || !w.isRunning.Load() {
		return false // claims always count, and the policies may be unknown
	}
	w.mu.Lock()
	isWatched, undefinedAt := w.current[name] != nil || w.next[name] != nil, w.undefined[name]
	w.mu.Unlock()
	if undefinedAt > 0 && observed.Objects <= undefinedAt {
		return true
	}
	kind := inventory.KindNamed(name)
	counted := w.Catalog.Counted(kind)
	switch {
	case isWatched, len(counted.Policies) > 0, !counted.IsSettled, w.hasSuccessor(kind):
		return false
	case ledger.Version(counted.Version) < observed.Policies:
		w.Refresh() // another process knows more
		return false
	default:
		return true
	}
}

// subjectOf returns the function for the subjects of the objects of a kind in the journal.
func (w *Watcher) subjectOf(kind schema.GroupKind) func(types.NamespacedName) string {
	if kind == inventory.ClaimKind.GroupKind() {
		return w.claimSubject
	}
	return func(name types.NamespacedName) string { return claims.ObjectSubject(kind, name) }
}
