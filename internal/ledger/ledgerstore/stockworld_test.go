package ledgerstore_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

const stockLimit = 40

// stockWorld is a list of widgets with its changes, and two processes that see them late.
type stockWorld struct {
	*rapid.T
	memory   *storagetest.Memory
	hosts    [2]*stockHost
	version  ledger.Version
	objects  map[string]*widget
	changes  []widgetChange
	requests []*stockRequest
	next     int
	// unreviewed is by how much objects have grown without a review.
	unreviewed ledger.Amount
}

// widget is an object. reviewed is the part of its amount that some request was admitted for.
type widget struct {
	version          ledger.Version
	amount, reviewed ledger.Amount
}

type widgetChange struct {
	uid       string
	version   ledger.Version
	amount    ledger.Amount
	isDeleted bool
}

// stockRequest is an admitted request in flight.
type stockRequest struct {
	uid            string
	after          ledger.Version
	amount, growth ledger.Amount
}

type stockHost struct {
	*process
	inventory *inventoryOf
	seen      int // of the changes
	fault     atomic.Int64
}

// catchUp shows the host the next changes.
func (w *stockWorld) catchUp(h *stockHost, count int) {
	for ; count > 0 && h.seen < len(w.changes); count-- {
		change := w.changes[h.seen]
		h.seen++
		if change.isDeleted {
			h.inventory.kind(widgets).Delete(inventory.Object{UID: objectOf(change.uid, 0, 0).UID, Version: change.version})
		} else {
			h.inventory.show(widgets, change.uid, change.version, change.amount)
		}
		h.changed(change.uid)
	}
}

// list shows the host all objects. It learns of earlier deletions only by what is missing.
func (w *stockWorld) list(h *stockHost) {
	var all []inventory.Object
	for uid, o := range w.objects {
		all = append(all, objectOf(uid, o.version, o.amount))
	}
	h.inventory.list(widgets, ledger.Basis{Objects: w.version, Policies: 1}, all...)
	h.seen = len(w.changes)
	h.KindChanged(widgets, []quotav1alpha1.ConsumerRef{acme})
}

// watch shows the host the stored ledger.
func (w *stockWorld) watch(h *stockHost) {
	revisions := w.memory.Revisions(acme)
	latest := revisions[len(revisions)-1]
	h.ObserveOf(acme, ledgerstore.Notice{
		Version: latest.Version, Unfinished: ledgerstore.UnfinishedIn(&latest.Snapshot),
		Observed: ledgerstore.ObservedIn(slices.Values(latest.Snapshot.Observations)),
	})
}

func newStockWorld(ctx context.Context, t *rapid.T) *stockWorld {
	w := &stockWorld{T: t, memory: storagetest.New(), version: 1, objects: map[string]*widget{}}
	for i := range w.hosts {
		h := &stockHost{inventory: newInventory(widgets)}
		connection := w.memory.Connect(func(_ context.Context, call storagetest.Call) storagetest.Fault {
			if call != storagetest.Write {
				return storagetest.None
			}
			return storagetest.Fault(h.fault.Swap(int64(storagetest.None)))
		})
		h.process = &process{Store: ledgerstore.New(ctx, connection), Connection: connection}
		h.Inventory = h.inventory
		h.SetShare(2, 2)
		h.inventory.onCatchUp = func([]string) error {
			w.catchUp(h, len(w.changes))
			return nil
		}
		go h.RunObservers(ctx, logr.Discard())
		w.hosts[i] = h
	}
	limit := func(context.Context, []ledger.Grant) ([]ledger.Grant, error) { return grants(stockLimit), nil }
	if err := w.hosts[0].SetGrants(ctx, acme, limit); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *stockWorld) pick(name string) (string, *widget) {
	if len(w.objects) == 0 {
		return "", nil
	}
	uid := rapid.SampledFrom(slices.Sorted(maps.Keys(w.objects))).Draw(w.T, name)
	return uid, w.objects[uid]
}

// write makes the next version of an object.
func (w *stockWorld) write(uid string, amount, reviewed ledger.Amount) {
	w.version++
	w.objects[uid] = &widget{version: w.version, amount: amount, reviewed: reviewed}
	w.changes = append(w.changes, widgetChange{uid: uid, version: w.version, amount: amount})
}

func (w *stockWorld) remove(uid string) {
	w.version++
	delete(w.objects, uid)
	w.changes = append(w.changes, widgetChange{uid: uid, version: w.version, isDeleted: true})
}

func (w *stockWorld) newUID() string {
	w.next++
	return fmt.Sprint(w.next)
}

// review has a host decide a request. It may come from the slice.
func (w *stockWorld) review(ctx context.Context, h *stockHost, q *stockRequest) {
	r := creating(widgets, q.uid, q.growth)
	if q.after > 0 {
		r = updating(widgets, q.uid, q.after, q.growth)
	}
	all := []ledger.Reservation{r}
	if rapid.IntRange(0, 3).Draw(w.T, "from the slice") > 0 && h.Escrow(acme, all, ledgerstore.Spare{}) {
		w.requests = append(w.requests, q)
		return
	}
	outcome, err := h.Apply(ctx, acme, ledgerstore.Request{Reservations: all, TakesOver: true})
	if err == nil && outcome.Code == ledger.Admitted {
		w.requests = append(w.requests, q)
	}
}

// end ends a request: the API server accepts it if its object is as reviewed.
func (w *stockWorld) end(q *stockRequest, isAccepted bool) {
	w.requests = slices.DeleteFunc(w.requests, func(other *stockRequest) bool { return other == q })
	switch o := w.objects[q.uid]; {
	case !isAccepted || !w.mayLand(q):
	case q.after == 0:
		w.write(q.uid, q.amount, q.amount)
	default:
		w.write(q.uid, q.amount, o.reviewed+q.growth)
	}
}

func (w *stockWorld) mayLand(q *stockRequest) bool {
	o := w.objects[q.uid]
	return q.after == 0 && o == nil || o != nil && q.after == o.version
}

func (w *stockWorld) step(ctx context.Context) {
	amount := func(least int) ledger.Amount { return ledger.Amount(rapid.IntRange(least, 4).Draw(w.T, "amount")) }
	h := rapid.SampledFrom(w.hosts[:]).Draw(w.T, "host")
	switch rapid.IntRange(0, 13).Draw(w.T, "what") {
	case 0, 1, 2:
		q := &stockRequest{uid: w.newUID(), amount: amount(1)}
		q.growth = q.amount
		w.review(ctx, h, q)
	case 3:
		if uid, o := w.pick("updated"); o != nil {
			after := amount(0)
			if q := (&stockRequest{uid: uid, after: o.version, amount: after, growth: after - o.amount}); q.growth > 0 {
				w.review(ctx, h, q)
			} else {
				w.write(uid, after, min(o.reviewed, after))
			}
		}
	case 4, 5:
		if len(w.requests) > 0 {
			w.end(rapid.SampledFrom(w.requests).Draw(w.T, "request"), rapid.IntRange(0, 3).Draw(w.T, "accepted") > 0)
		}
	case 6:
		if uid, o := w.pick("deleted"); o != nil {
			w.remove(uid)
		}
	case 7:
		uid, o := w.pick("changed")
		if o == nil || rapid.Bool().Draw(w.T, "new") {
			uid, o = w.newUID(), &widget{}
		}
		after := amount(0)
		w.unreviewed += max(0, after-o.amount)
		w.write(uid, after, min(o.reviewed, after))
	case 8, 9:
		w.catchUp(h, rapid.IntRange(1, 4).Draw(w.T, "seen"))
	case 10:
		<-time.After(time.Duration(rapid.IntRange(1, 30).Draw(w.T, "time")) * 100 * time.Millisecond)
	case 11:
		w.list(h)
	case 12:
		w.watch(h)
		h.SweepStock()
	default:
		faults := []storagetest.Fault{storagetest.Overtaken, storagetest.Unanswered, storagetest.Lost}
		h.fault.Store(int64(rapid.SampledFrom(faults).Draw(w.T, "fault")))
	}
	w.endFailed()
}

// endFailed may tell a host that requests have ended which nobody has in flight.
func (w *stockWorld) endFailed() {
	if rapid.IntRange(0, 3).Draw(w.T, "report") > 0 {
		return
	}
	h := rapid.SampledFrom(w.hosts[:]).Draw(w.T, "reported to")
	w.report(h)
}

func (w *stockWorld) report(h *stockHost) {
	for _, pending := range h.Reservations() {
		isOpen := func(q *stockRequest) bool { return q.uid == pending.Awaits.ID && q.after == pending.Awaits.After }
		if isSeen := h.seen == len(w.changes); isSeen && !pending.IsUnrecorded && !slices.ContainsFunc(w.requests, isOpen) {
			h.EndPending(pending)
		}
	}
}

// least is what the ledger has to count: what exists by admitted requests, and what those in flight may add.
func (w *stockWorld) least() (sum ledger.Amount) {
	for _, o := range w.objects {
		sum += o.reviewed
	}
	growth := map[string]ledger.Amount{} // at most one attempt at the same change has an effect
	for _, q := range w.requests {
		if key := fmt.Sprint(q.uid, "@", q.after); w.mayLand(q) {
			growth[key] = max(growth[key], q.growth)
		}
	}
	for _, g := range growth {
		sum += g
	}
	return sum
}

// unrecorded is what hosts have admitted from their slices and not recorded. It may count twice until they see what the
// other one has observed.
func (w *stockWorld) unrecorded() (sum ledger.Amount) {
	for _, h := range w.hosts {
		for _, pending := range h.Reservations() {
			if pending.IsUnrecorded {
				sum += pending.Charges[0].Amount
			}
		}
	}
	return sum
}

func (w *stockWorld) check() {
	synctest.Wait()
	got := countedIn(w, w.memory.Snapshot(acme))
	if least := w.least(); got.sum() < least {
		w.Fatalf("the stored ledger counts %+v, and %d exist or may appear", got, least)
	}
	if most := stockLimit + w.unreviewed + w.unrecorded(); got.sum() > most {
		w.Fatalf("the stored ledger counts %+v, the limit and what appeared without a review is %d", got, most)
	}
}

// settle ends everything, and requires a ledger that is exactly what exists.
func (w *stockWorld) settle(ctx context.Context) {
	for len(w.requests) > 0 {
		w.end(w.requests[0], rapid.Bool().Draw(w.T, "accepted"))
	}
	for _, h := range w.hosts {
		h.fault.Store(int64(storagetest.None))
		w.catchUp(h, len(w.changes))
	}
	for range 2 { // what was in a slice is recorded by the second time
		for _, h := range w.hosts {
			<-time.After(5 * time.Second)
			err := h.View(ctx, acme, func(*ledger.Ledger) {})
			if err != nil {
				w.Fatal(err)
			}
			w.report(h)
			synctest.Wait()
		}
		w.check()
	}
	for _, h := range w.hosts {
		if err := h.Flush(ctx); err != nil {
			w.Fatal(err)
		}
	}

	var exists ledger.Amount
	for _, o := range w.objects {
		exists += o.amount
	}
	expectCounted(w, "all is seen", w.memory, counted{Observed: exists})
	for _, h := range w.hosts {
		if known := h.Reservations(); len(known) > 0 {
			w.Errorf("in flight: %+v", known)
		}
	}
}

// Whatever happens, and however late two processes see it, the stored ledger counts what was admitted, and no more than
// the limit and what appeared without a review. In the end it counts exactly what exists.
func TestStockWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubbleTB{t}, func(rt *rapid.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newStockWorld(ctx, rt)
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				w.step(ctx)
				w.check()
			}
			w.settle(ctx)
		})
	})
}

// inBubbleTB hides the deadline of a test: nobody may ask for that in a bubble.
type inBubbleTB struct{ rapid.TB }
