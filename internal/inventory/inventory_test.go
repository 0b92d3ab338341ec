package inventory

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

var (
	acme = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}
	blue = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "blue"}
)

func inRegion(region string) ledger.Dimensions {
	d, err := ledger.NewDimensions(map[string]string{"region": region})
	if err != nil {
		panic(err)
	}
	return d
}

// uidOf is the UID of a numbered object. Some are no UUIDs, as those of aggregated API servers may be.
func uidOf(n int) types.UID {
	if n%3 == 0 {
		return types.UID(fmt.Sprintf("object %d", n))
	}
	return types.UID(uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String())
}

func mapOf(n int, version ledger.Version, demands ...Demand) Object {
	return Object{
		NamespacedName: types.NamespacedName{Namespace: fmt.Sprint("team-", n%2), Name: fmt.Sprint("map-", n)},
		UID:            uidOf(n), Version: version, Demands: demands, Created: time.Unix(int64(n), 0),
	}
}

func demandOf(consumer quotav1alpha1.ConsumerRef, amount ledger.Amount, dimensions ledger.Dimensions) Demand {
	return Demand{Consumer: consumer, Charges: []ledger.Charge{{ResourceType: "maps", Dimensions: dimensions, Amount: amount}}}
}

// world has an inventory beside a plain list of the objects.
type world struct {
	*rapid.T
	all     *Inventory
	kind    *Kind
	version ledger.Version
	// namespaces and policies are the versions that the demand rests on.
	namespaces, policies ledger.Version
	objects              map[int]Object
	deleted              map[int]bool
	// observed are earlier observations, and listedAt is the version of the latest list.
	observed map[quotav1alpha1.ConsumerRef][]ledger.Observation
	listedAt ledger.Version
}

func (w *world) drawDemands() []Demand {
	var demands []Demand
	for _, consumer := range []quotav1alpha1.ConsumerRef{blue, acme} {
		switch rapid.IntRange(0, 3).Draw(w.T, "demand") {
		case 0:
		case 1:
			demands = append(demands, demandOf(consumer, ledger.Amount(rapid.IntRange(0, 2).Draw(w.T, "amount")), ledger.Dimensions{}))
		default:
			d := demandOf(consumer, 1, inRegion("us"))
			d.Charges = append(d.Charges, ledger.Charge{ResourceType: "maps", Dimensions: inRegion("eu"), Amount: 2})
			demands = append(demands, d)
		}
	}
	return demands
}

func (w *world) step() {
	n := rapid.IntRange(0, 6).Draw(w.T, "object")

	switch rapid.IntRange(0, 7).Draw(w.T, "what") {
	case 0, 1, 2:
		if w.deleted[n] {
			return
		}
		w.version++
		o := mapOf(n, w.version, w.drawDemands()...)
		before := w.objects[n]
		w.objects[n] = o

		w.wantChanged(w.kind.Set(o), before.Demands, o.Demands)
		if again := w.kind.Set(o); again != nil {
			w.Fatalf("the same version again changes %v", again)
		}
	case 3:
		w.version++
		before := w.objects[n]
		delete(w.objects, n)
		w.deleted[n] = true

		w.wantChanged(w.kind.Delete(Object{UID: uidOf(n), Version: w.version}), before.Demands, nil)
	case 4:
		w.version++
		w.kind.Advance(w.version)
	case 5:
		w.recount()
	case 6:
		w.confirm()
	default:
		w.version++
		for gone := range w.objects {
			if rapid.IntRange(0, 3).Draw(w.T, "gone") == 0 {
				delete(w.objects, gone)
				w.deleted[gone] = true
			}
		}
		w.replace()
	}
}

// recount lists the objects of a changed namespace, some of them in an earlier version than the inventory has.
func (w *world) recount() {
	w.namespaces++
	namespace := fmt.Sprint("team-", rapid.IntRange(0, 1).Draw(w.T, "namespace"))
	before := maps.Clone(w.objects)
	var listed []Object
	for _, n := range slices.Sorted(maps.Keys(w.objects)) {
		o := w.objects[n]
		if o.Namespace != namespace {
			continue
		}
		o.Demands = w.drawDemands()
		if rapid.IntRange(0, 3).Draw(w.T, "late") == 0 {
			o.Version-- // it has changed since, and counts by the changed namespace already
		} else {
			w.objects[n] = o
		}
		listed = append(listed, o)
	}
	if rapid.IntRange(0, 1).Draw(w.T, "also gone") == 0 && w.deleted[0] {
		listed = append(listed, mapOf(0, w.version, demandOf(acme, 100, ledger.Dimensions{})))
	}

	ahead := mapOf(9, w.version+1, demandOf(acme, 100, ledger.Dimensions{}))
	if changed, ok := w.kind.Recount(w.namespaces, append(slices.Clone(listed), ahead)); ok || changed != nil {
		w.Fatalf("a list that is ahead of the watch changes %v: %t", changed, ok)
	}
	changed, ok := w.kind.Recount(w.namespaces, listed)
	if !ok {
		w.Fatal("the inventory does not take a list that it has reached")
	}
	for n := range w.objects {
		w.wantChanged(changed, before[n].Demands, w.objects[n].Demands)
	}
}

// confirm confirms later policies or namespaces, and then earlier ones.
func (w *world) confirm() {
	w.namespaces += ledger.Version(rapid.IntRange(0, 1).Draw(w.T, "namespaces"))
	w.policies += ledger.Version(rapid.IntRange(0, 1).Draw(w.T, "policies"))
	w.kind.Confirm(w.policies, w.namespaces)
	w.kind.Confirm(0, 0)
}

// basis is what the demand rests on.
func (w *world) basis() ledger.Basis {
	return ledger.Basis{Objects: w.version, Namespaces: w.namespaces, Policies: w.policies}
}

// replace lists the objects, after lists that are older in one respect.
func (w *world) replace() {
	for _, older := range []ledger.Basis{
		{Objects: w.version - 2, Namespaces: w.namespaces, Policies: w.policies},
		{Objects: w.version, Namespaces: w.namespaces - 1, Policies: w.policies},
		{Objects: w.version, Namespaces: w.namespaces, Policies: w.policies - 1},
	} {
		if _, ok := w.kind.Replace(older, maps.Values(map[int]Object{})); ok && w.listedAt > 0 {
			w.Fatal("an older list replaces a newer one")
		}
	}
	if _, ok := w.kind.Replace(w.basis(), maps.Values(w.objects)); !ok {
		w.Fatal("a newer list replaces nothing")
	}
	late := mapOf(6, w.version-1, demandOf(acme, 100, ledger.Dimensions{}))
	if changed := w.kind.Set(late); changed != nil || w.kind.Delete(Object{UID: uidOf(0), Version: w.version - 1}) != nil {
		w.Fatalf("what the list has passed changes %v", changed)
	}
	w.listedAt = w.version
}

// wantChanged requires that every consumer with another demand is among the changed ones.
func (w *world) wantChanged(changed []quotav1alpha1.ConsumerRef, before, after []Demand) {
	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, blue} {
		differ := !cmp.Equal(chargesOf(before, consumer), chargesOf(after, consumer), comparable...)
		if differ && !slices.Contains(changed, consumer) {
			w.Fatalf("the demand of %s went from %v to %v, and only %v are told", consumer.Name, before, after, changed)
		}
	}
}

func chargesOf(demands []Demand, consumer quotav1alpha1.ConsumerRef) []ledger.Charge {
	for _, d := range demands {
		if d.Consumer == consumer {
			return d.Charges
		}
	}
	return nil
}

var comparable = []cmp.Option{cmpopts.EquateComparable(ledger.Dimensions{}), cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b ledger.Demand) bool {
	return a.Dimensions.Compare(b.Dimensions) < 0
})}

func (w *world) check() {
	w.checkHolders()
	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, blue} {
		w.kind.View(consumer, func(v View) {
			o := v.Observation()
			if o.Basis != w.basis() {
				w.Fatalf("the basis is %+v, want %+v", o.Basis, w.basis())
			}
			if diff := cmp.Diff(w.demands(consumer), o.Demands, comparable...); diff != "" {
				w.Fatalf("the demand of %s (-want +got):\n%s", consumer.Name, diff)
			}
			w.checkChanges(v, consumer)
			for n := range 7 {
				want := ledger.Visibility{Version: w.objects[n].Version, IsDeleted: w.deleted[n]}
				pending := &ledger.Reservation{Awaits: &ledger.Awaited{ID: string(uidOf(n))}}
				if got := v.Visibility(pending); got != want {
					w.Fatalf("object %d: %+v, want %+v", n, got, want)
				}
			}
		})
	}
}

// checkChanges requires that the changes since an earlier observation lead to this one.
func (w *world) checkChanges(v View, consumer quotav1alpha1.ConsumerRef) {
	o := v.Observation()
	for _, earlier := range w.observed[consumer] {
		changes, hasAll := v.ChangesSince(earlier.Basis)
		if isWatched := earlier.Basis.Objects >= w.listedAt; hasAll != isWatched {
			w.Fatalf("all changes since %+v are known: %t, and the list was at %d", earlier.Basis, hasAll, w.listedAt)
		}
		isRecounted := earlier.Basis.Namespaces != w.namespaces || earlier.Basis.Policies != w.policies
		if !hasAll || isRecounted {
			continue // a recount is no change of an object
		}

		amounts := map[ledger.Dimensions]ledger.Amount{}
		for _, d := range earlier.Demands {
			amounts[d.Dimensions] += d.Amount
		}
		for _, c := range changes {
			for _, charge := range c.Changes {
				amounts[charge.Dimensions] += charge.Amount
			}
		}
		for _, d := range o.Demands {
			amounts[d.Dimensions] -= d.Amount
		}

		maps.DeleteFunc(amounts, func(_ ledger.Dimensions, amount ledger.Amount) bool { return amount == 0 })
		if len(amounts) > 0 {
			w.Fatalf("the changes from %+v to %+v are %+v", earlier, o, changes)
		}
	}
	w.observed[consumer] = append(w.observed[consumer], o)
}

// demands adds up the objects.
func (w *world) demands(consumer quotav1alpha1.ConsumerRef) []ledger.Demand {
	sums := map[ledger.Dimensions]ledger.Demand{}
	for _, o := range w.objects {
		for _, c := range chargesOf(o.Demands, consumer) {
			s := sums[c.Dimensions]
			s.ResourceType, s.Dimensions = c.ResourceType, c.Dimensions
			s.Amount += c.Amount
			s.Objects++
			sums[c.Dimensions] = s
		}
	}
	return slices.Collect(maps.Values(sums))
}

// listed returns an inventory with a list of no objects.
func listed(name string) *Kind {
	kind := NewKind(name, types.NamespacedName.String)
	kind.Replace(ledger.Basis{}, maps.Values(map[int]Object{}))
	return kind
}

// Before the list, nobody learns that nothing is in use.
func TestNothingIsSeenBeforeTheList(t *testing.T) {
	kind := NewKind("configmaps", types.NamespacedName.String)
	kind.Set(mapOf(1, 7, demandOf(acme, 1, ledger.Dimensions{})))
	kind.Advance(9)
	if kind.View(acme, func(v View) { t.Errorf("%+v", v.Observation()) }) {
		t.Error("it says that it has a list")
	}
}

// The demand of objects that nobody reviewed may be more than an amount can be. It becomes exact again.
func TestDemandBeyondAnAmount(t *testing.T) {
	kind := listed("configmaps")
	for n := range 4 {
		kind.Set(mapOf(n, ledger.Version(n+1), demandOf(acme, 1<<62, ledger.Dimensions{})))
	}
	want := func(amount ledger.Amount) {
		t.Helper()
		kind.View(acme, func(v View) {
			if got := v.Observation().Demands[0].Amount; got != amount {
				t.Errorf("the demand is %d, want %d", got, amount)
			}
		})
	}
	want(ledger.AmountMax)
	for n := range 3 {
		kind.Delete(Object{UID: uidOf(n), Version: ledger.Version(n + 10)})
	}
	want(1 << 62)
}

// Dimensions with the same text are different all the same.
func TestDifferentDemandsAreApart(t *testing.T) {
	kind := listed("configmaps")
	for n, pairs := range []map[string]string{{"a": "1,b=2"}, {"a": "1", "b": "2"}} {
		dimensions, err := ledger.NewDimensions(pairs)
		if err != nil {
			t.Fatal(err)
		}
		kind.Set(mapOf(n, ledger.Version(n+1), demandOf(acme, 1, dimensions)))
	}
	kind.View(acme, func(v View) {
		if demands := v.Observation().Demands; len(demands) != 2 {
			t.Errorf("%+v", demands)
		}
	})
}

// Objects may be deleted at the same version.
func TestDeletedTogether(t *testing.T) {
	kind := listed("events")
	kind.Set(mapOf(1, 1, demandOf(acme, 1, ledger.Dimensions{})))
	kind.Set(mapOf(2, 2, demandOf(acme, 1, ledger.Dimensions{})))
	if kind.Delete(Object{UID: uidOf(1), Version: 5}) == nil || kind.Delete(Object{UID: uidOf(2), Version: 5}) == nil {
		t.Error("a deletion changes nothing")
	}
	kind.View(acme, func(v View) {
		if o := v.Observation(); len(o.Demands) > 0 {
			t.Errorf("%+v", o)
		}
	})
}

// A new version with the demand of before changes nothing, also if no other object has this demand.
func TestEqualDemandChangesNothing(t *testing.T) {
	kind := listed("configmaps")
	kind.Set(mapOf(1, 1, demandOf(acme, 1, ledger.Dimensions{})))
	if changed := kind.Set(mapOf(1, 2, demandOf(acme, 1, ledger.Dimensions{}))); changed != nil || len(kind.log.changes) != 1 {
		t.Errorf("%v are told, and %d changes remembered", changed, len(kind.log.changes))
	}
}

func TestInventoryAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := New()
		w := &world{T: t, all: all, kind: all.Add("v1/ConfigMap", types.NamespacedName.String), objects: map[int]Object{}, deleted: map[int]bool{}, observed: map[quotav1alpha1.ConsumerRef][]ledger.Observation{}}
		w.version, w.namespaces, w.policies = 5, 3, 3
		w.replace()
		for range 40 {
			w.step()
			w.check()
		}
		w.version++
		w.kind.Replace(w.basis(), maps.Values(map[int]Object{}))
		if len(w.kind.sums)+len(w.kind.demands)+len(w.kind.objects) > 0 {
			t.Fatalf("without objects the inventory has %v", w.kind.sums)
		}
	})
}

// A view shows sums and version of one moment, whatever changes meanwhile.
func TestViewIsOfOneMoment(t *testing.T) {
	kind := listed("configmaps")
	var watching sync.WaitGroup
	watching.Go(func() {
		for version := ledger.Version(1); version <= 2000; version++ {
			kind.Set(mapOf(1, version, demandOf(acme, ledger.Amount(version), ledger.Dimensions{})))
		}
	})
	for seen := ledger.Version(0); seen < 2000; {
		kind.View(acme, func(v View) {
			o := v.Observation()
			if seen = o.Basis.Objects; seen > 0 && o.Demands[0].Amount != ledger.Amount(seen) {
				t.Errorf("as of version %d the demand is %d", seen, o.Demands[0].Amount)
				seen = 2000
			}
		})
	}
	watching.Wait()
}

// The order of consumers and charges makes no difference: such objects share their demand.
func TestEqualDemandsAreShared(t *testing.T) {
	kind := listed("configmaps")
	a, b := demandOf(acme, 1, inRegion("eu")), demandOf(blue, 1, ledger.Dimensions{})
	kind.Set(mapOf(1, 1, a, b))
	if changed := kind.Set(mapOf(2, 2, b, a)); len(changed) != 2 {
		t.Errorf("another object changes %v", changed)
	}
	if changed := kind.Set(mapOf(2, 3, b, a)); changed != nil {
		t.Errorf("a new version with equal demand changes %v", changed)
	}
	if len(kind.demands) != 1 {
		t.Errorf("%d demands are kept, want 1", len(kind.demands))
	}
}

func TestInventoryOfKinds(t *testing.T) {
	i := New()
	subject := func(name types.NamespacedName) string { return "subject " + name.Name }
	b, a := i.Add("v1/Secret", subject), i.Add("v1/ConfigMap", nil)
	if i.Add("v1/Secret", nil) != b || i.Kind("v1/Secret") != b || i.Kind("v1/Pod") != nil {
		t.Error("a kind is not the one that was added")
	}
	if kinds := i.Kinds(); !slices.Equal(kinds, []*Kind{a, b}) {
		t.Errorf("the kinds are %v", kinds)
	}
	if i.View("v1/Secret", acme, func(View) {}) || i.View("v1/Pod", acme, func(View) {}) {
		t.Error("a kind without a list is visible")
	}

	b.Replace(ledger.Basis{}, maps.Values(map[int]Object{}))
	b.Set(mapOf(1, 1, demandOf(acme, 1, ledger.Dimensions{})))
	isSeen := i.View("v1/Secret", acme, func(v View) {
		if changes, hasAll := v.ChangesSince(ledger.Basis{}); !hasAll || len(changes) != 1 || changes[0].Subject != "subject map-1" {
			t.Errorf("the changes are %+v: %t", changes, hasAll)
		}
	})
	if !isSeen {
		t.Error("a kind with a list is not visible")
	}
	if consumers := i.Remove("v1/Secret"); !slices.Equal(consumers, []quotav1alpha1.ConsumerRef{acme}) || i.Kind("v1/Secret") != nil {
		t.Errorf("the removed kind had demand of %v", consumers)
	}
	if consumers := i.Remove("v1/Secret"); consumers != nil {
		t.Errorf("a kind that is not there had demand of %v", consumers)
	}
}

// A ledger that has observed nothing yet hears of each change of a consumer who had nothing when the changes begin.
func TestChangesOfTheFirstObservation(t *testing.T) {
	kind := New().Add("v1/ConfigMap", func(name types.NamespacedName) string { return name.Name })
	eu := inRegion("eu")
	kind.Replace(ledger.Basis{Objects: 7}, maps.Values(map[int]Object{2: mapOf(2, 5, demandOf(blue, 3, eu))}))
	kind.Set(mapOf(1, 8, demandOf(acme, 4, eu)))
	kind.Set(mapOf(1, 9, demandOf(acme, 1, eu)))
	kind.Set(mapOf(2, 10, demandOf(blue, 4, eu)))

	kind.View(acme, func(v View) {
		changes, hasAll := v.ChangesSince(ledger.Basis{})
		if !hasAll || len(changes) != 1 || changes[0].Kind != ledger.KindAdmitted || changes[0].Subject != "map-1" {
			t.Errorf("the changes of a consumer who had nothing are %+v: %t", changes, hasAll)
		}
	})
	kind.View(blue, func(v View) {
		if changes, hasAll := v.ChangesSince(ledger.Basis{}); hasAll {
			t.Errorf("these should be all changes of a consumer who had 3: %+v", changes)
		}
	})
}

func TestHasSeen(t *testing.T) {
	i := New()
	kind := i.Add("v1/ConfigMap", nil)
	kind.Replace(ledger.Basis{}, maps.Values(map[int]Object{}))
	kind.Set(mapOf(1, 7))
	kind.Set(mapOf(2, 8))
	kind.Delete(Object{UID: uidOf(2), Version: 9})

	for name, tt := range map[string]struct {
		reason string
		awaits ledger.Awaited
		want   bool
	}{
		"create":          {"the object is there", ledger.Awaited{Kind: "v1/ConfigMap", ID: string(uidOf(1))}, true},
		"update":          {"it has a version after the one under review", ledger.Awaited{Kind: "v1/ConfigMap", ID: string(uidOf(1)), After: 6}, true},
		"same version":    {"the update has yet to come", ledger.Awaited{Kind: "v1/ConfigMap", ID: string(uidOf(1)), After: 7}, false},
		"deleted":         {"whatever became of the request has gone", ledger.Awaited{Kind: "v1/ConfigMap", ID: string(uidOf(2)), After: 100}, true},
		"unknown object":  {"it may appear", ledger.Awaited{Kind: "v1/ConfigMap", ID: string(uidOf(3))}, false},
		"uncounted kinds": {"nobody watches them", ledger.Awaited{Kind: "v1/Pod", ID: string(uidOf(1))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := i.HasSeen(&tt.awaits); got != tt.want {
				t.Errorf("%s: got %t, want %t", tt.reason, got, tt.want)
			}
		})
	}
}

func TestNamesOfKinds(t *testing.T) {
	for name, kind := range map[string]schema.GroupVersionKind{
		"v1/Pod":              {Version: "v1", Kind: "Pod"},
		"apps/v1/Deployment":  {Group: "apps", Version: "v1", Kind: "Deployment"},
		"a.b.example/v2/Pods": {Group: "a.b.example", Version: "v2", Kind: "Pods"},
	} {
		if got := NameOf(kind); got != name {
			t.Errorf("%v has the name %q, want %q", kind, got, name)
		}
		if got := KindNamed(name); got != kind {
			t.Errorf("%q names %v, want %v", name, got, kind)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	kind := listed("pods")
	demands := []Demand{demandOf(acme, 1, inRegion("eu"))}
	version := ledger.Version(0)
	for b.Loop() {
		version++
		kind.Set(mapOf(int(version)%100_000, version, demands...))
	}
}

// BenchmarkMemory reports the bytes of an object of 150,000 that 10,000 consumers share, with its name.
func BenchmarkMemory(b *testing.B) {
	const objects, consumers = 150_000, 10_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kind := listed("pods")
		for n := range objects {
			consumer := quotav1alpha1.ConsumerRef{Kind: "Project", Name: fmt.Sprint("project-", n%consumers)}
			o := mapOf(n, ledger.Version(n+1), demandOf(consumer, 1, ledger.Dimensions{}))
			o.NamespacedName = types.NamespacedName{Namespace: consumer.Name, Name: fmt.Sprintf("web-5d4f8c7b9-%05d", n)}
			o.UID = types.UID(uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String())
			kind.Set(o)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/objects, "B/object")
		runtime.KeepAlive(kind)
	}
}

func TestCountedBy(t *testing.T) {
	all := New()
	configMaps := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	demand := func(policy string, consumer quotav1alpha1.ConsumerRef, amount ledger.Amount) Demand {
		d := demandOf(consumer, amount, ledger.Dimensions{})
		d.Policy = policy
		return d
	}
	kind := all.Add(NameOf(configMaps), func(types.NamespacedName) string { return "" })
	kind.Replace(ledger.Basis{Objects: 9}, slices.Values([]Object{
		mapOf(1, 1, demand("maps", acme, 2), demand("sizes", blue, 1)),
		mapOf(2, 2, demand("maps", acme, 2)),
		mapOf(3, 3, demand("maps", blue, 2)),
		mapOf(4, 4, demand("maps", blue, 0)), // demands nothing now
		mapOf(5, 5),
	}))

	for policy, want := range map[string][2]int{"maps": {3, 2}, "sizes": {1, 1}, "others": {0, 0}} {
		objects, consumers := all.CountedBy(configMaps, policy)
		if got := [2]int{objects, consumers}; got != want {
			t.Errorf("by policy %s count %d objects and consumers, want %d", policy, got, want)
		}
	}
}

// Two objects have one ID: two claims of one policy for one object. The oldest counts, in whatever order they are seen,
// and the other one from its deletion on.
func TestTwins(t *testing.T) {
	demand := func(amount ledger.Amount) []Demand {
		return []Demand{{Consumer: acme, Charges: []ledger.Charge{{ResourceType: "cpu", Amount: amount}}}}
	}
	object := func(name string, created int64, version ledger.Version, amount ledger.Amount) Object {
		return Object{
			NamespacedName: types.NamespacedName{Namespace: "n", Name: name}, UID: "policy/object", Version: version,
			Created: time.Unix(created, 0), Demands: demand(amount),
		}
	}
	older, younger := object("b", 1, 3, 5), object("a", 2, 4, 7)
	gone := func(o Object) Object { o.Version, o.Demands = 6, nil; return o }
	for name, tt := range map[string]struct {
		list   []Object
		happen func(*Kind)
		want   ledger.Amount
	}{
		"the older one first":            {[]Object{older}, func(k *Kind) { k.Set(younger) }, 5},
		"the younger one first":          {[]Object{younger}, func(k *Kind) { older := older; older.Version = 5; k.Set(older) }, 5},
		"both in a list":                 {[]Object{younger, older}, func(*Kind) {}, 5},
		"the older one goes":             {[]Object{younger, older}, func(k *Kind) { k.Delete(gone(older)) }, 7},
		"the younger one goes":           {[]Object{older, younger}, func(k *Kind) { k.Delete(gone(younger)) }, 5},
		"both go":                        {[]Object{older, younger}, func(k *Kind) { k.Delete(gone(younger)); k.Delete(gone(older)) }, 0},
		"the younger one comes and goes": {[]Object{older}, func(k *Kind) { k.Set(younger); k.Delete(gone(younger)) }, 5},
		"the older one demands more":     {[]Object{older, younger}, func(k *Kind) { k.Set(object("b", 1, 5, 6)) }, 6},
	} {
		k := NewKind("claims", types.NamespacedName.String)
		k.Replace(ledger.Basis{Objects: 4}, slices.Values(tt.list))
		tt.happen(k)
		var got ledger.Amount
		k.View(acme, func(v View) {
			for _, d := range v.Observation().Demands {
				got += d.Amount
			}
		})
		if got != tt.want {
			t.Errorf("%s: the demand is %d, want %d", name, got, tt.want)
		}
		if seen := k.VisibilityOf("policy/object"); seen.IsDeleted != (tt.want == 0) || (seen.Version > 0) != (tt.want > 0) {
			t.Errorf("%s: %+v is visible", name, seen)
		}
	}
}
