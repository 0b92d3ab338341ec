package inventory

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// deletedMax is how many deletions a kind remembers. Only requests in flight ask for them.
const deletedMax = 16384

// Object is a protected object as of its version.
type Object struct {
	types.NamespacedName
	UID     types.UID
	Version ledger.Version
	// Demands have distinct consumers. Without demands, the object only exists.
	Demands []Demand
}

// Kind is the inventory of the objects of one kind. It is safe for concurrent use.
type Kind struct {
	name string

	mu      sync.RWMutex
	basis   ledger.Basis
	objects map[id]object
	deleted *lru.Cache // of the IDs
	sums    map[quotav1alpha1.ConsumerRef]map[balance]sum
	demands map[string]*demand // by key
	// namespaces are the names of namespaces, so that objects share them.
	namespaces map[string]string
	log        changelog
}

// id identifies an object: its UID, or the beginning of a hash of a UID that is no UUID.
type id [16]byte

func idOf(uid types.UID) id {
	if parsed, err := uuid.Parse(string(uid)); err == nil {
		return id(parsed)
	}
	hash := sha256.Sum256([]byte(uid))
	return id(hash[:16])
}

// object is what the inventory keeps of an object.
type object struct {
	namespace, name string
	version         ledger.Version
	demand          *demand // nil if it demands nothing
}

// balance is what demand is added up by, for one consumer.
type balance struct {
	resourceType string
	dimensions   ledger.Dimensions
}

type sum struct {
	amount  ledger.Amount
	objects int64
}

// NewKind returns an inventory without objects. name is that of the kind in observations.
func NewKind(name string) *Kind {
	k := &Kind{name: name, deleted: lru.New(deletedMax)}
	k.clear()
	return k
}

func (k *Kind) clear() {
	k.objects, k.sums = map[id]object{}, map[quotav1alpha1.ConsumerRef]map[balance]sum{}
	k.demands, k.namespaces = map[string]*demand{}, map[string]string{}
}

// Replace replaces the inventory by a list of all objects, and returns the consumers for whom something may have
// changed. The list may have been made with other policies and namespaces than before.
func (k *Kind) Replace(basis ledger.Basis, objects iter.Seq[Object]) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, consumers := k.objects, maps.Clone(k.sums)
	k.clear()
	for o := range objects {
		k.addLocked(&o)
	}
	for id := range before {
		if _, exists := k.objects[id]; !exists {
			k.deleted.Add(id, nil)
		}
	}
	k.basis = basis
	k.log.reset(basis.Objects)

	maps.Copy(consumers, k.sums)
	return slices.SortedFunc(maps.Keys(consumers), compareConsumers)
}

// Set notes a new version of an object, and returns the consumers whose demand has changed. An object that the
// inventory has in this version or a later one stays as it is.
func (k *Kind) Set(o Object) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := idOf(o.UID)
	before, isKnown := k.objects[id]
	if isKnown && before.version >= o.Version {
		return nil
	}
	k.advanceLocked(o.Version)
	if isKnown {
		k.removeLocked(id)
	}
	k.addLocked(&o)
	after, kind := k.objects[id], ledger.KindChanged
	if !isKnown {
		kind = ledger.KindAdmitted
	}
	return k.logLocked(change{at: o.Version, uid: o.UID, namespace: after.namespace, name: after.name, before: before.demand, after: after.demand, kind: kind})
}

// Delete notes that an object was deleted at a version, and returns the consumers whose demand has changed.
func (k *Kind) Delete(uid types.UID, at ledger.Version) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := idOf(uid)
	before := k.objects[id]
	k.advanceLocked(at)
	k.removeLocked(id)
	k.deleted.Add(id, nil)
	return k.logLocked(change{at: at, uid: uid, namespace: before.namespace, name: before.name, before: before.demand, kind: ledger.KindReleased})
}

// Advance notes that nothing else has changed up to a version.
func (k *Kind) Advance(to ledger.Version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.advanceLocked(to)
}

func (k *Kind) advanceLocked(to ledger.Version) { k.basis.Objects = max(k.basis.Objects, to) }

// logLocked remembers a change, and returns the consumers whose demand has changed.
func (k *Kind) logLocked(c change) []quotav1alpha1.ConsumerRef {
	if c.before == c.after {
		return nil
	}
	k.log.add(c)
	return consumersOf(c.before, c.after)
}

// consumersOf returns the consumers in one of two demands.
func consumersOf(before, after *demand) []quotav1alpha1.ConsumerRef {
	consumers := map[quotav1alpha1.ConsumerRef]struct{}{}
	for _, d := range []*demand{before, after} {
		if d != nil {
			for _, part := range d.parts {
				consumers[part.Consumer] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(consumers), compareConsumers)
}

// addLocked adds an object that the inventory does not have.
func (k *Kind) addLocked(o *Object) {
	namespace, isShared := k.namespaces[o.Namespace]
	if !isShared {
		namespace = o.Namespace
		k.namespaces[namespace] = namespace
	}
	added := object{namespace: namespace, name: o.Name, version: o.Version}
	if len(o.Demands) > 0 {
		added.demand = k.shareLocked(o.Demands)
		added.demand.objects++
		k.sumLocked(added.demand, 1)
	}
	k.objects[idOf(o.UID)] = added
}

// removeLocked removes an object, if it is there.
func (k *Kind) removeLocked(id id) {
	removed := k.objects[id]
	delete(k.objects, id)
	if removed.demand == nil {
		return
	}
	k.sumLocked(removed.demand, -1)
	if removed.demand.objects--; removed.demand.objects == 0 {
		delete(k.demands, removed.demand.key)
	}
}

// shareLocked returns the demand that all objects with equal demands share.
func (k *Kind) shareLocked(parts []Demand) *demand {
	sorted := inOrder(parts)
	key := keyOf(sorted)
	shared := k.demands[key]
	if shared == nil {
		shared = &demand{key: key, parts: sorted}
		k.demands[key] = shared
	}
	return shared
}

// sumLocked adds the demand of one object to the sums, or takes it away with sign -1.
func (k *Kind) sumLocked(d *demand, sign ledger.Amount) {
	for _, part := range d.parts {
		balances := k.sums[part.Consumer]
		if balances == nil {
			balances = map[balance]sum{}
			k.sums[part.Consumer] = balances
		}
		for _, c := range part.Charges {
			b := balance{c.ResourceType, c.Dimensions}
			s := balances[b]
			s.amount += sign * c.Amount
			s.objects += int64(sign)
			if balances[b] = s; s.objects == 0 {
				delete(balances, b)
			}
		}
		if len(balances) == 0 {
			delete(k.sums, part.Consumer)
		}
	}
}
