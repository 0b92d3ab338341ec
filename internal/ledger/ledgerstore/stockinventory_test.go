package ledgerstore_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// The kinds whose objects count.
const (
	widgets = "example.com/v1/Widget"
	gadgets = "example.com/v1/Gadget"
)

// inventoryOf is the inventory of a process. A test shows it objects by hand.
type inventoryOf struct {
	// onCatchUp, if set, lets the inventory catch up.
	onCatchUp func(kinds []string) error

	mu        sync.Mutex
	onKinds   func() // if set, called once after the next call of Kinds
	kinds     map[string]*inventory.Kind
	retired   map[string]bool
	caughtUp  [][]string
	refreshed int
}

var _ ledgerstore.Inventory = (*inventoryOf)(nil)

// newInventory returns an inventory that has listed no objects of some kinds, at version 1 of everything.
func newInventory(kinds ...string) *inventoryOf {
	i := &inventoryOf{kinds: map[string]*inventory.Kind{}, retired: map[string]bool{}}
	for _, kind := range kinds {
		i.list(kind, ledger.Basis{Objects: 1, Policies: 1})
	}
	return i
}

// list replaces the objects of a kind, and counts the kind if it is new.
func (i *inventoryOf) list(kind string, basis ledger.Basis, objects ...inventory.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kinds[kind] == nil {
		i.kinds[kind] = inventory.NewKind(kind, types.NamespacedName.String)
	}
	i.kinds[kind].Replace(basis, slices.Values(objects))
}

// show shows an object that demands an amount of gpu of acme.
func (i *inventoryOf) show(kind, uid string, version ledger.Version, amount ledger.Amount) {
	i.kind(kind).Set(objectOf(uid, version, amount))
}

func (i *inventoryOf) kind(name string) *inventory.Kind {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.kinds[name]
}

// retire ends the counting of a kind. With isKnown it is certain that nothing counts the kind any more.
func (i *inventoryOf) retire(kind string, isKnown bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.kinds, kind)
	i.retired[kind] = isKnown
}

func objectOf(uid string, version ledger.Version, amount ledger.Amount) inventory.Object {
	return inventory.Object{
		NamespacedName: types.NamespacedName{Namespace: "team", Name: "object-" + uid},
		UID:            types.UID(uid), Version: version,
		Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: charges(amount)}},
	}
}

func (i *inventoryOf) Kinds() []string {
	i.mu.Lock()
	kinds, onKinds := slices.Sorted(maps.Keys(i.kinds)), i.onKinds
	i.onKinds = nil
	i.mu.Unlock()
	if onKinds != nil {
		onKinds()
	}
	return kinds
}

// afterKinds lets something happen after the next call of Kinds.
func (i *inventoryOf) afterKinds(happens func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.onKinds = happens
}

func (i *inventoryOf) Consumers() []quotav1alpha1.ConsumerRef {
	var all []quotav1alpha1.ConsumerRef
	for _, kind := range i.Kinds() {
		all = append(all, i.kind(kind).Consumers()...)
	}
	return all
}

func (i *inventoryOf) View(
	kind string, consumer quotav1alpha1.ConsumerRef, look func(ledger.Observation, ledger.Observer),
) bool {
	k := i.kind(kind)
	return k != nil && k.View(consumer, func(v inventory.View) { look(v.Observation(), v) })
}

func (i *inventoryOf) IsListed(kind string) bool { return i.kind(kind) != nil }

func (i *inventoryOf) HasSeen(awaits *ledger.Awaited) (has bool) {
	i.View(awaits.Kind, acme, func(_ ledger.Observation, by ledger.Observer) {
		v := by.Visibility(&ledger.Reservation{Awaits: awaits})
		has = v.IsDeleted || v.Version > awaits.After
	})
	return has
}

func (i *inventoryOf) IsRetired(kind string, _ ledger.Basis) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.retired[kind]
}

func (i *inventoryOf) CatchUp(_ context.Context, kinds []string) error {
	i.mu.Lock()
	i.caughtUp = append(i.caughtUp, kinds)
	i.mu.Unlock()
	if i.onCatchUp == nil {
		return nil
	}
	return i.onCatchUp(kinds)
}

func (i *inventoryOf) Refresh() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refreshed++
}

// faultsOf decides about the calls of a connection, see [storagetest.Memory.Connect].
type faultsOf = func(context.Context, storagetest.Call) storagetest.Fault

// counting starts a process with an inventory, and limits acme.
func counting(t testing.TB, memory *storagetest.Memory, faults faultsOf, i *inventoryOf, limit ledger.Amount) *process {
	t.Helper()
	p := start(t, memory, faults)
	p.Inventory = i
	p.limit(t, limit)
	return p
}

// changed informs a process that an object changed.
func (p *process) changed(uid string) {
	p.ObjectChanged(types.UID(uid), []quotav1alpha1.ConsumerRef{acme})
}

// creating is the reservation of a request to create an object.
func creating(kind, uid string, amount ledger.Amount) ledger.Reservation {
	r := reservation(ledgerstore.ObjectKey("p", uid), amount)
	r.Awaits = &ledger.Awaited{Kind: kind, ID: uid, Policies: 1}
	return r
}

// updating is the reservation of a request to update an object as of a version.
func updating(kind, uid string, after ledger.Version, growth ledger.Amount) ledger.Reservation {
	r := reservation(ledgerstore.UpdateKey("p", uid, fmt.Sprint(after)), growth)
	r.Awaits = &ledger.Awaited{Kind: kind, ID: uid, After: after, Policies: 1}
	return r
}

// admit requires the admission of a reservation, and returns its sequence.
func (p *process) admit(t testing.TB, r ledger.Reservation) int64 {
	t.Helper()
	d, err := storagetest.Reserve(t.Context(), p, acme, r)
	if err != nil || d.Code != ledger.Admitted {
		t.Fatalf("reserve %s: %+v, %v", r.Key, d, err)
	}
	return d.Sequence
}

// counted is what a ledger counts.
type counted struct{ Observed, Pending, Sliced ledger.Amount }

// reporter is a test, or a run of a property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func (c counted) sum() ledger.Amount { return c.Observed + c.Pending + c.Sliced }

func countedIn(t reporter, stored ledger.Snapshot) counted {
	t.Helper()
	restored, err := ledger.Restore(stored)
	if err != nil {
		t.Fatalf("stored ledger: %v", err)
	}
	account := restored.Account(gpu)
	return counted{account.Used, account.Reserved, slicedIn(stored)}
}

func expectCounted(t reporter, reason string, memory *storagetest.Memory, want counted) {
	t.Helper()
	if got := countedIn(t, memory.Snapshot(acme)); got != want {
		t.Errorf("%s: the stored ledger counts %+v, want %+v", reason, got, want)
	}
}

// expectAlways requires the same sum in every revision from an index on.
func expectAlways(t testing.TB, reason string, memory *storagetest.Memory, from int, want ledger.Amount) {
	t.Helper()
	for _, revision := range memory.Revisions(acme)[from:] {
		if got := countedIn(t, revision.Snapshot); got.sum() != want {
			t.Errorf("%s: revision %s counts %+v, want a sum of %d", reason, revision.Version, got, want)
		}
	}
}
