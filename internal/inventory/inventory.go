package inventory

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// NameOf returns the name of a kind in observations.
func NameOf(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + "/" + kind.Kind
}

// KindNamed is the inverse of [NameOf].
func KindNamed(name string) schema.GroupVersionKind {
	i := strings.LastIndex(name, "/")
	return schema.FromAPIVersionAndKind(name[:max(0, i)], name[i+1:])
}

// ClaimKind is the kind of claims of record, and Claims is its name in observations. The claims of people and services
// demand what they were granted, and those of policies what they request.
var (
	ClaimKind = quotav1alpha1.GroupVersion.WithKind("ResourceClaim")
	Claims    = NameOf(ClaimKind)
)

// Inventory has the inventory of each counted kind. It is safe for concurrent use. Create it with [New].
type Inventory struct {
	mu    sync.RWMutex
	kinds map[string]*Kind
}

// New returns an inventory of no kinds.
func New() *Inventory { return &Inventory{kinds: map[string]*Kind{}} }

// Add returns the inventory of a kind, and adds it as [NewKind] does if there is none.
func (i *Inventory) Add(name string, subjectOf func(types.NamespacedName) string) *Kind {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind := i.kinds[name]
	if kind == nil {
		kind = NewKind(name, subjectOf)
		i.kinds[name] = kind
	}
	return kind
}

// Remove removes a kind, and returns the consumers of its objects.
func (i *Inventory) Remove(name string) []quotav1alpha1.ConsumerRef {
	i.mu.Lock()
	kind := i.kinds[name]
	delete(i.kinds, name)
	i.mu.Unlock()
	if kind == nil {
		return nil
	}
	return kind.Consumers()
}

// Kind returns the inventory of a kind, or nil.
func (i *Inventory) Kind(name string) *Kind {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.kinds[name]
}

// Kinds returns the inventories in the order of their names.
func (i *Inventory) Kinds() []*Kind {
	i.mu.RLock()
	defer i.mu.RUnlock()
	kinds := make([]*Kind, 0, len(i.kinds))
	for _, name := range slices.Sorted(maps.Keys(i.kinds)) {
		kinds = append(kinds, i.kinds[name])
	}
	return kinds
}

// CountedBy returns how many objects of a kind demand something by a policy, and of how many consumers, as far as the
// inventory knows.
func (i *Inventory) CountedBy(kind schema.GroupVersionKind, policy string) (objects, consumers int) {
	k := i.Kind(NameOf(kind))
	if k == nil {
		return 0, 0
	}
	return k.CountedBy(policy)
}

// View calls look with the inventory of a kind as of one moment, see [Kind.View]. It reports false without a call if
// the kind is not listed.
func (i *Inventory) View(kind string, consumer quotav1alpha1.ConsumerRef, look func(View)) bool {
	k := i.Kind(kind)
	return k != nil && k.View(consumer, look)
}

// HasSeen reports whether the inventory shows the effect of a request, or that its object was deleted.
func (i *Inventory) HasSeen(awaits *ledger.Awaited) bool {
	kind := i.Kind(awaits.Kind)
	if kind == nil {
		return false
	}
	version, isDeleted := kind.find(types.UID(awaits.ID))
	return isDeleted || version > awaits.After
}

// Live is what an observation of a kind has to rest on to show everything before some moment.
type Live struct {
	ledger.Basis
	// Err is why it is unknown, if it is.
	Err error
	// ResourceTypes are the types that objects of the kind demand.
	ResourceTypes []string
}
