package inventory

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// deletedMax is how many deletions a kind remembers. Only requests in flight ask for them.
const deletedMax = 16384

// Object is a protected object as of its version.
type Object struct {
	types.NamespacedName
	// UID is that of the object, or another ID that the kind has for it.
	UID     types.UID
	Version ledger.Version
	// Created is when the object was created, in whole seconds.
	Created time.Time
	// Demands have distinct pairs of consumer and policy. Without demands, the object only exists.
	Demands []Demand
}

// Kind is the inventory of the objects of one kind. It is safe for concurrent use, with one watch that changes it.
type Kind struct {
	name string
	// subjectOf returns the subject of an object in records, see [ledger.Record].
	subjectOf func(types.NamespacedName) string

	mu sync.RWMutex
	contents
}

// contents is what a kind has seen. Without a list, it has seen nothing.
type contents struct {
	isListed bool
	basis    ledger.Basis
	objects  map[id]object
	deleted  *lru.Cache // of the IDs
	// twins are the objects of those IDs that several objects have.
	twins   map[id][]Object
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
	created         int64   // in seconds
	demand          *demand // nil if it demands nothing
}

// balance is what demand is added up by, for one consumer.
type balance struct {
	resourceType string
	dimensions   ledger.Dimensions
}

type sum struct {
	amount  ledger.Total
	objects int64
}

// NewKind returns an inventory that needs a list, see [Kind.Replace]. name is that of the kind in observations, and
// subjectOf returns the subject of an object in records, see [ledger.Record].
func NewKind(name string, subjectOf func(types.NamespacedName) string) *Kind {
	return &Kind{name: name, subjectOf: subjectOf, contents: newContents()}
}

func newContents() contents {
	return contents{
		objects: map[id]object{}, deleted: lru.New(deletedMax), sums: map[quotav1alpha1.ConsumerRef]map[balance]sum{},
		demands: map[string]*demand{}, namespaces: map[string]string{}, twins: map[id][]Object{},
	}
}

// Replace replaces the inventory by a list of all objects, and returns the consumers for whom something may have
// changed. The list may have been made with later policies and namespaces than before. Replace reports false, and
// changes nothing, if something in the basis is earlier than before: then list again.
func (k *Kind) Replace(basis ledger.Basis, objects iter.Seq[Object]) (consumers []quotav1alpha1.ConsumerRef, ok bool) {
	listed := newContents()
	listed.isListed, listed.basis = true, basis
	listed.log.reset(basis.Objects)
	for o := range objects {
		listed.put(&o)
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isListed && !basis.Covers(k.basis) {
		return nil, false
	}
	before := k.contents
	for id := range before.objects {
		if _, exists := listed.objects[id]; !exists {
			before.deleted.Add(id, nil)
		}
	}
	listed.deleted = before.deleted
	k.contents = listed

	affected := maps.Clone(before.sums)
	maps.Copy(affected, listed.sums)
	return slices.SortedFunc(maps.Keys(affected), naming.CompareConsumers), true
}

// Set notes a new version of an object, and returns the consumers whose demand has changed. It ignores a version that
// the inventory has passed already, and every one before the first list.
func (k *Kind) Set(o Object) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := idOf(o.UID)
	before, isKnown := k.objects[id]
	if isKnown && before.version >= o.Version || !k.reaches(o.Version) {
		return nil
	}
	k.put(&o)
	after, kind := k.objects[id], ledger.KindChanged
	if !isKnown {
		kind = ledger.KindAdmitted
	}
	return k.note(change{at: o.Version, uid: o.UID, namespace: after.namespace, name: after.name, before: before.demand, after: after.demand, kind: kind})
}

// Delete notes that an object was deleted at its version, and returns the consumers whose demand has changed. It
// ignores what [Kind.Set] ignores.
func (k *Kind) Delete(o Object) []quotav1alpha1.ConsumerRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.reaches(o.Version) {
		return nil
	}

	id := idOf(o.UID)
	before := k.objects[id]
	made := change{at: o.Version, uid: o.UID, namespace: before.namespace, name: before.name, before: before.demand, kind: ledger.KindReleased}
	if twin := k.takeFromTwins(&o); twin != nil {
		k.replaceBy(twin)
		made.after, made.kind = k.objects[id].demand, ledger.KindChanged
		return k.note(made)
	}
	k.remove(id)
	k.deleted.Add(id, nil)
	return k.note(made)
}

// Advance notes that nothing else has changed up to a version.
func (k *Kind) Advance(to ledger.Version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reaches(to)
}

// Confirm notes that all demands are as later policies and namespaces have them, too.
func (k *Kind) Confirm(policies, namespaces ledger.Version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.basis.Policies = max(k.basis.Policies, policies)
	k.basis.Namespaces = max(k.basis.Namespaces, namespaces)
}

// Recount replaces the demands of listed objects by those of a later version of the namespaces, and returns the
// consumers whose demand has changed. An object that the inventory knows in a later version has these already. Recount
// reports false, and changes nothing, if it knows an object only in an earlier version than the list: then wait for
// the watch.
func (k *Kind) Recount(namespaces ledger.Version, listed []Object) (consumers []quotav1alpha1.ConsumerRef, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range listed {
		known := k.objects[idOf(listed[i].UID)].version
		if known < listed[i].Version && k.basis.Objects < listed[i].Version {
			return nil, false
		}
	}

	changed := map[quotav1alpha1.ConsumerRef]struct{}{}
	for i := range listed {
		id := idOf(listed[i].UID)
		before, isKnown := k.objects[id]
		if !isKnown || before.version != listed[i].Version {
			continue
		}
		k.remove(id)
		k.add(&listed[i])
		if after := k.objects[id]; !before.demand.equal(after.demand) {
			for _, consumer := range consumersOf(before.demand, after.demand) {
				changed[consumer] = struct{}{}
			}
		}
	}
	k.basis.Namespaces = max(k.basis.Namespaces, namespaces)
	return slices.SortedFunc(maps.Keys(changed), naming.CompareConsumers), true
}

// Name returns the name of the kind in observations.
func (k *Kind) Name() string { return k.name }

// Basis returns what the inventory rests on. It reports false before the first list.
func (k *Kind) Basis() (basis ledger.Basis, isListed bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.basis, k.isListed
}

// Consumers returns the consumers of all objects.
func (k *Kind) Consumers() []quotav1alpha1.ConsumerRef {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(k.sums), naming.CompareConsumers)
}

// DemandsOf returns what an object demands as far as the inventory knows. Do not modify it.
func (k *Kind) DemandsOf(uid types.UID) []Demand {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if d := k.objects[idOf(uid)].demand; d != nil {
		return d.parts
	}
	return nil
}

// NameOf returns the name of an object, and reports whether the inventory has it.
func (k *Kind) NameOf(uid types.UID) (name types.NamespacedName, isKnown bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	o, isKnown := k.objects[idOf(uid)]
	return types.NamespacedName{Namespace: o.namespace, Name: o.name}, isKnown
}

// Demanding returns the UIDs of the objects that demand something, each with the version of the object. It leaves out
// UIDs that are no UUIDs; those of the API server are.
func (k *Kind) Demanding() map[types.UID]ledger.Version {
	k.mu.RLock()
	defer k.mu.RUnlock()
	all := make(map[types.UID]ledger.Version, len(k.objects))
	for id, o := range k.objects {
		if o.demand != nil {
			all[types.UID(uuid.UUID(id).String())] = o.version
		}
	}
	return all
}

// Len returns the number of objects.
func (k *Kind) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.objects)
}

// CountedBy returns how many objects demand something by a policy, and of how many consumers.
func (k *Kind) CountedBy(policy string) (objects, consumers int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	charged := map[quotav1alpha1.ConsumerRef]struct{}{}
	for _, d := range k.demands {
		isCounted := false
		for i := range d.parts {
			if d.parts[i].Policy == policy && d.parts[i].isPositive() {
				isCounted = true
				charged[d.parts[i].Consumer] = struct{}{}
			}
		}
		if isCounted {
			objects += d.objects
		}
	}
	return objects, len(charged)
}

// find returns the version of an object, or 0 if there is none, and whether it was deleted.
func (k *Kind) find(uid types.UID) (version ledger.Version, isDeleted bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	id := idOf(uid)
	_, isDeleted = k.deleted.Get(id)
	return k.objects[id].version, isDeleted
}

// reaches moves on to a version. It reports false if that is an earlier one, or if there is no list yet. Objects that
// end at one moment may have a version in common.
func (c *contents) reaches(to ledger.Version) bool {
	if !c.isListed || to < c.basis.Objects {
		return false
	}
	c.basis.Objects = to
	return true
}

// note remembers a change, and returns the consumers whose demand has changed.
func (c *contents) note(made change) []quotav1alpha1.ConsumerRef {
	if made.before.equal(made.after) {
		return nil
	}
	c.log.add(made)
	return consumersOf(made.before, made.after)
}

// add adds an object that the inventory does not have.
func (c *contents) add(o *Object) {
	namespace, isShared := c.namespaces[o.Namespace]
	if !isShared {
		namespace = o.Namespace
		c.namespaces[namespace] = namespace
	}
	added := object{namespace: namespace, name: o.Name, version: o.Version, created: o.Created.Unix()}
	if len(o.Demands) > 0 {
		added.demand = c.share(o.Demands)
		added.demand.objects++
		c.sumUp(added.demand, 1)
	}
	id := idOf(o.UID)
	c.objects[id] = added
	c.deleted.Remove(id)
}

// remove removes an object, if it is there.
func (c *contents) remove(id id) {
	removed := c.objects[id]
	delete(c.objects, id)
	if removed.demand == nil {
		return
	}
	c.sumUp(removed.demand, -1)
	if removed.demand.objects--; removed.demand.objects == 0 {
		delete(c.demands, removed.demand.key)
	}
}

// share returns the demand that all objects with equal demands share.
func (c *contents) share(parts []Demand) *demand {
	sorted := inOrder(parts)
	key := keyOf(sorted)
	shared := c.demands[key]
	if shared == nil {
		shared = &demand{key: key, parts: sorted}
		c.demands[key] = shared
	}
	return shared
}

// sumUp adds the demand of one object to the sums, or takes it away with sign -1.
func (c *contents) sumUp(d *demand, sign int64) {
	for _, part := range d.parts {
		balances := c.sums[part.Consumer]
		if balances == nil {
			balances = map[balance]sum{}
			c.sums[part.Consumer] = balances
		}
		for _, charge := range part.Charges {
			b := balance{charge.ResourceType, charge.Dimensions}
			s := balances[b]
			if s.objects += sign; sign > 0 {
				s.amount = s.amount.Plus(charge.Amount)
			} else {
				s.amount = s.amount.Minus(charge.Amount)
			}
			if balances[b] = s; s.objects == 0 {
				delete(balances, b)
			}
		}
		if len(balances) == 0 {
			delete(c.sums, part.Consumer)
		}
	}
}
