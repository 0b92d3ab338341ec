package ledgerstore_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// observed is long enough for a ledger to observe a change of usage, and transferred for the stored ledger to count an
// object in place of its request.
const observed, transferred = 3 * time.Second, 6 * time.Second

func TestStockCountsOnce(t *testing.T) {
	t.Run("a create", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		from := len(memory.Revisions(acme))

		p.admit(t, creating(widgets, "1", 4))
		expectCounted(t, "the object has yet to appear", memory, counted{Pending: 4})
		objects.show(widgets, "1", 2, 4)
		p.changed("1")
		<-time.After(transferred)

		expectCounted(t, "the object is visible", memory, counted{Observed: 4})
		expectAlways(t, "the request or its object counts", memory, from, 4)
		if known := p.ReservationsFor("1"); len(known) > 0 {
			t.Errorf("in flight: %+v", known)
		}
	}))
	t.Run("a create that a request finds visible", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)

		p.admit(t, creating(widgets, "1", 4))
		objects.show(widgets, "1", 2, 4)
		p.admit(t, creating(widgets, "2", 6))

		expectCounted(t, "the request takes the rest", memory, counted{Observed: 4, Pending: 6})
	}))
	t.Run("the growth by an update", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "1", 2, 4)
		p := counting(t, memory, nil, objects, 10)
		from := len(memory.Revisions(acme))

		p.admit(t, updating(widgets, "1", 2, 3))
		expectCounted(t, "the update has yet to appear", memory, counted{Observed: 4, Pending: 3})
		objects.show(widgets, "1", 3, 7)
		p.changed("1")
		<-time.After(transferred)

		expectCounted(t, "the update is visible", memory, counted{Observed: 7})
		expectAlways(t, "the request or its effect counts", memory, from, 7)
	}))
	t.Run("the growth of an object deleted instead", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "1", 2, 4)
		p := counting(t, memory, nil, objects, 10)

		p.admit(t, updating(widgets, "1", 2, 3))
		objects.kind(widgets).Delete(inventory.Object{UID: "1", Version: 3})
		p.changed("1")
		<-time.After(observed)

		expectCounted(t, "nothing exists", memory, counted{})
	}))
}

func TestStockEndPending(t *testing.T) {
	t.Run("ends a failed request at once", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		p.admit(t, creating(widgets, "1", 4))
		began := time.Now()

		p.EndPending(p.ReservationsFor("1")[0])
		synctest.Wait()

		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
		expectCounted(t, "the inventory stands still", memory, counted{})
	}))
	t.Run("does not end a later attempt", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		p.admit(t, creating(widgets, "1", 4))
		failed := p.ReservationsFor("1")[0]
		p.admit(t, creating(widgets, "1", 5))

		p.EndPending(failed)
		<-time.After(observed)

		expectCounted(t, "the later attempt has another sequence", memory, counted{Pending: 5})
	}))
}

func TestStockForgetsKinds(t *testing.T) {
	tests := map[string]struct {
		reason    string
		isRetired bool
		want      counted
	}{
		"not counted any more": {"the kind has no policy", true, counted{}},
		"away":                 {"the kind may return", false, counted{Observed: 4, Pending: 2}},
	}
	for name, tt := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			memory, objects := storagetest.New(), newInventory(widgets)
			objects.show(widgets, "1", 2, 4)
			p := counting(t, memory, nil, objects, 10)
			p.admit(t, creating(widgets, "2", 2))

			objects.retire(widgets, tt.isRetired)
			p.KindChanged(widgets, []quotav1alpha1.ConsumerRef{acme})
			<-time.After(observed)

			expectCounted(t, tt.reason, memory, tt.want)
			if known, want := p.ReservationsFor("2"), tt.want.Pending > 0; len(known) > 0 != want {
				t.Errorf("%s: in flight are %+v", tt.reason, known)
			}
		}))
	}
}

// A kind ends because another one, such as its next version, has its list now. Between the two, nothing may be free.
func TestStockObservesASuccessorFirst(t *testing.T) {
	t.Run("in a bubble", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "1", 2, 4)
		p := counting(t, memory, nil, objects, 10)
		var happened atomic.Bool
		objects.afterKinds(func() {
			happened.Store(true)
			objects.list(gadgets, ledger.Basis{Objects: 3, Policies: 1}, objectOf("1", 2, 4))
			objects.retire(widgets, true)
		})

		p.KindChanged(widgets, []quotav1alpha1.ConsumerRef{acme})
		<-time.After(observed)
		if !happened.Load() {
			t.Fatal("nobody looked at the kinds")
		}
		expectCounted(t, "the next look shows the successor", memory, counted{Observed: 4})

		p.KindChanged(gadgets, []quotav1alpha1.ConsumerRef{acme})
		<-time.After(observed)
		expectCounted(t, "only the successor counts", memory, counted{Observed: 4})
	}))
}

// A replica that knows only earlier policies or namespaces neither observes nor denies by them.
func TestStockBehind(t *testing.T) {
	t.Run("keeps a pending request, and denies nothing", inBubble(func(t *testing.T) {
		memory, ahead, behind := storagetest.New(), newInventory(widgets), newInventory(widgets)
		p := counting(t, memory, nil, ahead, 10)
		q := start(t, memory, nil)
		q.Inventory = behind
		ahead.kind(widgets).Confirm(2, 0)
		ahead.show(widgets, "1", 2, 6)
		r := creating(widgets, "2", 4)
		r.Awaits.Policies = 2
		p.admit(t, r)

		behind.show(widgets, "1", 2, 5)
		behind.show(widgets, "2", 3, 3)
		_, err := storagetest.Reserve(t.Context(), q, acme, creating(widgets, "3", 1))

		if err == nil || !strings.Contains(err.Error(), "latest policies") {
			t.Errorf("got %v, want an error", err)
		}
		if behind.refreshed == 0 {
			t.Error("the inventory was not refreshed")
		}
		q.changed("2")
		<-time.After(observed)
		expectCounted(t, "the earlier policies may demand less", memory, counted{Observed: 6, Pending: 4})

		behind.list(widgets, ledger.Basis{Objects: 4, Policies: 2}, objectOf("1", 2, 6))
		q.admit(t, creating(widgets, "3", 4))
		expectCounted(t, "it has the policies", memory, counted{Observed: 6, Pending: 4})
	}))
}

// take applies a request, and requires its admission.
func (p *process) take(t *testing.T, r ledgerstore.Request) ledgerstore.Outcome {
	t.Helper()
	outcome, err := p.Apply(t.Context(), acme, r)
	if err != nil || outcome.Code != ledger.Admitted {
		t.Fatalf("got %s, %v", outcome.Code, err)
	}
	return outcome
}

// Two attempts at an update take the larger growth of both.
func TestStockRaise(t *testing.T) {
	attempt := func(growth ledger.Amount) ledgerstore.Request {
		return ledgerstore.Request{Reservations: []ledger.Reservation{updating(widgets, "1", 2, growth)}, TakesOver: true}
	}
	begin := func(t *testing.T) (*storagetest.Memory, *process) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "1", 2, 4)
		return memory, counting(t, memory, nil, objects, 10)
	}

	t.Run("and a smaller attempt changes nothing", inBubble(func(t *testing.T) {
		memory, p := begin(t)
		p.take(t, attempt(3))
		outcome := p.take(t, attempt(2))
		if len(outcome.Raised) > 0 || !outcome.Decisions[0].Existing {
			t.Errorf("got %+v", outcome)
		}
		expectCounted(t, "the larger growth", memory, counted{Observed: 4, Pending: 3})
	}))
	t.Run("beyond the limit is denied, and the earlier attempt stays", inBubble(func(t *testing.T) {
		memory, p := begin(t)
		p.take(t, attempt(3))
		outcome, err := p.Apply(t.Context(), acme, attempt(7))
		if err != nil || outcome.Code != ledger.Exceeded {
			t.Errorf("got %+v, %v", outcome, err)
		}
		expectCounted(t, "the earlier growth", memory, counted{Observed: 4, Pending: 3})
	}))
	t.Run("is lowered again", inBubble(func(t *testing.T) {
		memory, p := begin(t)
		p.take(t, attempt(3))
		outcome := p.take(t, attempt(6))
		expectCounted(t, "the larger growth", memory, counted{Observed: 4, Pending: 6})
		before := outcome.RaisedFrom(updating(widgets, "1", 2, 6).Key)
		if before == nil || before.Charges[0].Amount != 3 {
			t.Fatalf("raised is %+v", outcome.Raised)
		}

		if err := p.Lower(t.Context(), acme, outcome.Decisions[0].Sequence, *before); err != nil {
			t.Fatal(err)
		}

		expectCounted(t, "the growth of the first attempt", memory, counted{Observed: 4, Pending: 3})
		if known := p.ReservationsFor("1"); len(known) != 1 || known[0].Charges[0].Amount != 3 || known[0].Awaits == nil {
			t.Errorf("in flight: %+v", known)
		}
	}))
	t.Run("stays if another attempt relies on it", inBubble(func(t *testing.T) {
		memory, p := begin(t)
		p.take(t, attempt(3))
		outcome := p.take(t, attempt(6))
		p.take(t, attempt(5))

		if err := p.Lower(t.Context(), acme, outcome.Decisions[0].Sequence, outcome.Raised[0]); err != nil {
			t.Fatal(err)
		}

		expectCounted(t, "the third attempt relies on the raised reservation", memory, counted{Observed: 4, Pending: 6})
	}))
	t.Run("is not lowered after its end", inBubble(func(t *testing.T) {
		memory, p := begin(t)
		p.take(t, attempt(3))
		outcome := p.take(t, attempt(6))
		p.Inventory.(*inventoryOf).show(widgets, "1", 3, 5)

		if err := p.Lower(t.Context(), acme, outcome.Decisions[0].Sequence, outcome.Raised[0]); err != nil {
			t.Fatal(err)
		}
		p.changed("1")
		<-time.After(observed)

		expectCounted(t, "another update has won", memory, counted{Observed: 5})
	}))
}

// A create of the same name takes over what an earlier one holds.
func TestStockInstead(t *testing.T) {
	instead := func(amount ledger.Amount) ledgerstore.Request {
		return ledgerstore.Request{
			Reservations: []ledger.Reservation{creating(widgets, "2", amount)},
			TakesOver:    true, Instead: map[string]string{"p/2": "p/1"},
		}
	}
	tests := map[string]struct {
		reason       string
		amount       ledger.Amount
		wantTaken    []string
		wantCode     ledger.Code
		wantInFlight string
	}{
		"equal charges": {"they are for the later object", 6, []string{"p/1"}, ledger.Admitted, "2"},
		"other charges": {"they are beside those of the earlier one", 5, nil, ledger.Exceeded, "1"},
	}
	for name, tt := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			memory, objects := storagetest.New(), newInventory(widgets)
			p := counting(t, memory, nil, objects, 10)
			p.admit(t, creating(widgets, "1", 6))

			outcome, err := p.Apply(t.Context(), acme, instead(tt.amount))

			if err != nil || outcome.Code != tt.wantCode || !slices.Equal(outcome.Taken, tt.wantTaken) {
				t.Errorf("%s: got %+v, %v", tt.reason, outcome, err)
			}
			expectCounted(t, tt.reason, memory, counted{Pending: 6})
			if known := p.Reservations(); len(known) != 1 || known[0].Awaits == nil || known[0].Awaits.ID != tt.wantInFlight {
				t.Errorf("%s: in flight are %+v", tt.reason, known)
			}
			objects.show(widgets, tt.wantInFlight, 2, 6)
			p.changed(tt.wantInFlight)
			<-time.After(transferred)
			expectCounted(t, tt.reason, memory, counted{Observed: 6})
		}))
	}
}

// strict is a journal that takes only what is stored.
type strict struct {
	t      *testing.T
	memory *storagetest.Memory
	last   atomic.Int64
}

func (s *strict) Take(consumer quotav1alpha1.ConsumerRef, _ *ledger.Opening, entries []ledger.Entry) bool {
	has := lastStored(s.memory.Snapshot(consumer).Journal)
	for i := range entries {
		s.last.Store(entries[i].Sequence)
		if entries[i].Sequence > has {
			s.t.Errorf("entry %d was offered, the stored ledger has %d", entries[i].Sequence, has)
		}
	}
	return true
}

// A copy in memory that has observed more than storage has is written soon, and the journal gets nothing of it before.
func TestStockAhead(t *testing.T) {
	t.Run("is written soon", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p, journal := start(t, memory, nil), &strict{t: t, memory: memory}
		p.Inventory, p.Journal = objects, journal
		p.limit(t, 10)
		objects.show(widgets, "1", 2, 4)

		p.look(t)
		p.OfferRecords(acme)
		synctest.Wait()
		expectCounted(t, "a question writes nothing", memory, counted{})
		<-time.After(2 * time.Second)

		expectCounted(t, "nobody told the store", memory, counted{Observed: 4})
		if last := lastStored(memory.Snapshot(acme).Journal); last == 0 || journal.last.Load() != last {
			t.Errorf("the journal has entries up to %d, the ledger up to %d", journal.last.Load(), last)
		}
	}))
	t.Run("is written later if usage stays the same", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		p.admit(t, creating(widgets, "1", 4))
		objects.show(widgets, "1", 2, 4)
		p.changed("1")
		<-time.After(3 * time.Second)
		expectCounted(t, "the object counts as its request", memory, counted{Pending: 4})

		objects.show(widgets, "2", 3, 1)
		p.changed("2")
		<-time.After(2 * time.Second)

		expectCounted(t, "another object counts beside it", memory, counted{Observed: 5})
	}))
	t.Run("is written with the next admission", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		p.admit(t, creating(widgets, "1", 4))
		objects.show(widgets, "1", 2, 4)
		p.changed("1")
		<-time.After(3 * time.Second)
		from := len(memory.Revisions(acme))

		p.admit(t, creating(widgets, "2", 1))
		objects.show(widgets, "2", 3, 1)
		p.changed("2")
		<-time.After(time.Minute)

		expectCounted(t, "both are visible", memory, counted{Observed: 5})
		if writes := len(memory.Revisions(acme)) - from; writes != 2 {
			t.Errorf("the second create took %d writes, want one for the request and one for its object", writes)
		}
	}))
	t.Run("is written before the process ends", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		p.admit(t, creating(widgets, "1", 4))
		objects.show(widgets, "1", 2, 4)
		p.changed("1")
		p.look(t)

		began := time.Now()
		if err := p.Flush(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Fatalf("flushed after %s: %v", time.Since(began), err)
		}

		expectCounted(t, "no other process has to look", memory, counted{Observed: 4})
	}))
	t.Run("is left to the preferred replica", inBubble(func(t *testing.T) {
		w := newWatched(t)
		objects := newInventory(widgets)
		w.other.Inventory = objects
		objects.show(widgets, "1", 2, 4)
		w.other.look(t)
		<-time.After(time.Minute)
		expectCounted(t, "the preferred replica has no inventory", w.memory, counted{})
	}))
	t.Run("ends the wait for a request that an observation decides", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "0", 2, 1)
		p := start(t, memory, nil)
		p.Inventory = objects
		p.limit(t, 5)
		r := creating(widgets, "1", 4)
		p.admit(t, r)
		p.ExpectRelease(acme, r.Key) // an answer says that the create has failed
		objects.show(widgets, "1", 3, 4)
		p.look(t)

		began := time.Now()
		d, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "2", 1))
		if took := time.Since(began); err != nil || d.Code != ledger.Exceeded || took > 0 {
			t.Errorf("got %+v, %v after %s, want a denial at once", d, err, took)
		}
	}))
	t.Run("tells subscribers of freed quota with the write", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		objects.show(widgets, "1", 2, 4)
		p := start(t, memory, nil)
		p.Inventory = objects
		var grew atomic.Int64
		p.Subscribe(func(_ quotav1alpha1.ConsumerRef, change ledgerstore.Change) {
			if change.CapacityGrew {
				grew.Add(1)
			}
		})
		p.limit(t, 10)
		synctest.Wait() // an answer comes before subscribers hear
		grew.Store(0)
		objects.kind(widgets).Delete(inventory.Object{UID: "1", Version: 3})

		p.look(t)
		if grew.Load() > 0 {
			t.Error("subscribers hear of a change that is not stored")
		}
		<-time.After(observed)

		if grew.Load() != 1 {
			t.Errorf("subscribers heard %d times", grew.Load())
		}
		objects.show(widgets, "2", 4, 4)
		p.admit(t, creating(widgets, "3", 1))
		objects.kind(widgets).Delete(inventory.Object{UID: "2", Version: 5})
		p.admit(t, creating(widgets, "4", 1))
		synctest.Wait()
		if grew.Load() != 2 {
			t.Errorf("subscribers heard %d times, want also that a request stored what is freed", grew.Load())
		}
	}))
}

// faulty is a connection whose next write suffers a fault, after something else has happened.
type faulty struct {
	next atomic.Pointer[func() storagetest.Fault]
}

func (f *faulty) faults(_ context.Context, call storagetest.Call) storagetest.Fault {
	if call == storagetest.Write {
		if next := f.next.Swap(nil); next != nil {
			return (*next)()
		}
	}
	return storagetest.None
}

// holdingStock starts a process with a slice of 8, beside 4 that a request for the object "first" holds.
func holdingStock(t *testing.T, memory *storagetest.Memory, faults faultsOf, objects *inventoryOf) *process {
	t.Helper()
	p := start(t, memory, faults)
	p.holdStock(t, memory, objects)
	return p
}

// holdStock gives a new process an inventory, and the slice that [holdingStock] describes.
func (p *process) holdStock(t *testing.T, memory *storagetest.Memory, objects *inventoryOf) {
	t.Helper()
	p.Inventory = objects
	p.limit(t, 10_000)
	if p.escrowed("before", 2) || p.escrowed("first", 2) {
		t.Fatal("the first creates were admitted without a slice")
	}
	p.admit(t, creating(widgets, "first", 4))
	expectCounted(t, "a process that needed quota holds some for the next creates", memory, counted{Pending: 4, Sliced: 8})
}

// escrowed reports whether a create of a widget is admitted from the slice.
func (p *process) escrowed(uid string, amount ledger.Amount) bool {
	return p.Escrow(acme, []ledger.Reservation{creating(widgets, uid, amount)}, ledgerstore.Spare{})
}

func TestStockEscrow(t *testing.T) {
	t.Run("records what is not visible, and ends the rest", inBubble(func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := holdingStock(t, memory, nil, objects)
		from := len(memory.Revisions(acme))
		if !p.escrowed("1", 3) || !p.escrowed("2", 2) {
			t.Fatal("not admitted from the slice")
		}

		objects.show(widgets, "1", 2, 3)
		<-time.After(observed)

		got := countedIn(t, memory.Snapshot(acme))
		if got.Observed != 3 || got.Pending != 6 {
			t.Errorf("the stored ledger counts %+v", got)
		}
		expectAtLeast(t, memory, from, 9)
		if len(p.ReservationsFor("1")) > 0 || len(p.ReservationsFor("2")) != 1 || p.ReservationsFor("2")[0].IsUnrecorded {
			t.Errorf("in flight: %+v", p.Reservations())
		}
	}))
	t.Run("leaves an admission in the slice until it knows what the ledger has observed", inBubble(func(t *testing.T) {
		memory, objects, ahead := storagetest.New(), newInventory(widgets), newInventory(widgets)
		p := holdingStock(t, memory, nil, objects)
		from := len(memory.Revisions(acme))
		if !p.escrowed("1", 3) {
			t.Fatal("not admitted from the slice")
		}
		ahead.show(widgets, "1", 5, 3)
		q := start(t, memory, nil)
		q.Inventory = ahead
		q.admit(t, creating(widgets, "2", 1))
		expectCounted(t, "another process sees the object first", memory, counted{Observed: 3, Pending: 5, Sliced: 8})

		<-time.After(10 * time.Second)
		expectCounted(t, "it may count already", memory, counted{Observed: 3, Pending: 5, Sliced: 3})
		objects.show(widgets, "1", 5, 3)
		<-time.After(10 * time.Second)

		expectCounted(t, "the object counts once", memory, counted{Observed: 3, Pending: 5})
		expectAtLeast(t, memory, from, 7)
	}))
	faults := map[string]storagetest.Fault{
		"a conflict": storagetest.Overtaken, "no answer": storagetest.Unanswered, "a lost write": storagetest.Lost,
	}
	for name, fault := range faults {
		t.Run("records again after "+name, inBubble(func(t *testing.T) {
			memory, objects, connection := storagetest.New(), newInventory(widgets), &faulty{}
			p := holdingStock(t, memory, connection.faults, objects)
			from := len(memory.Revisions(acme))
			if !p.escrowed("1", 3) || !p.escrowed("2", 2) {
				t.Fatal("not admitted from the slice")
			}
			var isLater bool
			meanwhile := func() storagetest.Fault {
				objects.show(widgets, "1", 2, 3)
				isLater = p.escrowed("3", 1)
				return fault
			}
			connection.next.Store(&meanwhile)

			<-time.After(30 * time.Second)

			want := counted{Observed: 3, Pending: 6}
			if isLater {
				want.Pending++
			}
			expectCounted(t, "each counts once", memory, want)
			expectAtLeast(t, memory, from, want.sum())
		}))
	}
	t.Run("goes on covering the others when a record is repeated", inBubble(func(t *testing.T) {
		memory, objects, connection := storagetest.New(), newInventory(widgets), &faulty{}
		p := holdingStock(t, memory, connection.faults, objects)
		objects.show(widgets, "full", 2, 9_943)
		objects.show(widgets, "deleted", 3, 10)
		if !p.escrowed("1", 3) {
			t.Fatal("not admitted from the slice")
		}
		var isLater bool
		meanwhile := func() storagetest.Fault {
			objects.show(widgets, "1", 4, 3)
			objects.kind(widgets).Delete(inventory.Object{UID: "deleted", Version: 5})
			isLater = p.escrowed("2", 3)
			return storagetest.Unanswered
		}
		connection.next.Store(&meanwhile)

		// Of 50 that are free then, 3 are in the slice.
		d, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "large", 48))

		if err != nil || d.Code != ledger.Exceeded || !isLater {
			t.Errorf("got %+v, %v, and the later create was admitted: %t", d, err, isLater)
		}
		<-time.After(30 * time.Second)
		expectCounted(t, "each counts once", memory, counted{Observed: 9_946, Pending: 7})
		expectAtLeast(t, memory, 0, 0)
	}))
	t.Run("is refused", inBubble(func(t *testing.T) {
		objects := newInventory(widgets)
		p := holdingStock(t, storagetest.New(), nil, objects)
		if p.Escrow(acme, []ledger.Reservation{creating(gadgets, "1", 1)}, ledgerstore.Spare{}) {
			t.Error("nobody lists the kind")
		}
		if p.escrowed("first", 1) {
			t.Error("the ledger knows the key")
		}
		if !p.escrowed("2", 1) || p.escrowed("2", 1) {
			t.Error("the same request is admitted once")
		}
		p.Inventory = nil
		if p.escrowed("3", 1) {
			t.Error("there is no inventory")
		}
	}))
}

// expectAtLeast requires that every revision from an index on covers an amount.
func expectAtLeast(t *testing.T, memory *storagetest.Memory, from int, least ledger.Amount) {
	t.Helper()
	for _, revision := range memory.Revisions(acme)[from:] {
		if got := countedIn(t, revision.Snapshot); got.sum() < least || got.sum() > 10_000 {
			t.Errorf("revision %s counts %+v, want at least %d", revision.Version, got, least)
		}
	}
}

// The slice of a dead process ends once the ledger has observed each kind of which the process may have admitted
// objects.
func TestStockEndSlice(t *testing.T) { synctest.Test(t, endSlice) }

func endSlice(t *testing.T) {
	memory, objects := storagetest.New(), newInventory(widgets, gadgets)
	dead := holdingStock(t, memory, nil, objects)
	dead.stop()
	p := start(t, memory, nil)
	p.Inventory = objects
	objects.show(gadgets, "g", 2, 1)
	p.look(t)
	if err := p.RevokeSlice(t.Context(), p.ForeignSlices()[0]); err != nil {
		t.Fatal(err)
	}

	revoked := p.ForeignSlices()[0]

	at := func(objects ledger.Version) ledger.Basis { return ledger.Basis{Objects: objects, Policies: 1} }
	steps := []struct {
		reason string
		before func()
		ended  map[string]ledger.Basis
		want   bool
	}{
		{"nobody says what has to be observed", nil, nil, false},
		{"objects of a kind demand what is in the slice", nil, map[string]ledger.Basis{widgets: at(1)}, false},
		{"one kind is not observed so far", nil, map[string]ledger.Basis{widgets: at(3), gadgets: at(2)}, false},
		{"the policies are not observed", nil, map[string]ledger.Basis{widgets: at(1), gadgets: {Objects: 2, Policies: 2}},
			false},
		{"each kind is observed", func() { objects.kind(widgets).Advance(3) },
			map[string]ledger.Basis{widgets: at(3), gadgets: at(2)}, true},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		isDropped, err := p.EndSlice(t.Context(), revoked, step.ended)
		if err != nil || isDropped != step.want {
			t.Errorf("%s: ended is %t, %v", step.reason, isDropped, err)
		}
	}
	expectCounted(t, "the slice has ended", memory, counted{Observed: 1, Pending: 4})
}

func TestStockSweep(t *testing.T) {
	appear := func(o *inventoryOf) { o.show(widgets, "2", 3, 1) }
	disappear := func(o *inventoryOf) { o.kind(widgets).Delete(inventory.Object{UID: "1", Version: 3}) }
	retire := func(o *inventoryOf) { o.retire(widgets, true) }
	tests := map[string]struct {
		reason      string
		isPreferred bool
		change      func(*inventoryOf)
		wantAfter   time.Duration
	}{
		"a new object":          {"the preferred replica sees to it", true, appear, 0},
		"the last object ended": {"the preferred replica sees to it", true, disappear, 0},
		"a kind is retired":     {"the preferred replica sees to it", true, retire, 0},
		"another replica":       {"the preferred one has died", false, appear, 6 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			memory, objects := storagetest.New(), newInventory(widgets)
			objects.show(widgets, "1", 2, 4)
			counting(t, memory, nil, objects, 10).stop()
			p, replicas := start(t, memory, nil), &watched{}
			replicas.isPreferred.Store(tt.isPreferred)
			p.Inventory, p.Replicas = objects, replicas
			go p.RunObservers(t.Context(), logr.Discard())
			p.ObserveOf(acme, ledgerstore.Notice{
				Version: "1", Unfinished: ledgerstore.NothingUnfinished,
				Observed: ledgerstore.ObservedIn(slices.Values(memory.Snapshot(acme).Observations)),
			})
			p.SweepStock()
			synctest.Wait()
			if p.Calls(storagetest.Read) > 0 {
				t.Errorf("%s: the ledger was read although nothing differs", tt.reason)
			}

			tt.change(objects)
			began, revisions := time.Now(), len(memory.Revisions(acme))
			for time.Since(began) < time.Minute {
				p.SweepStock()
				synctest.Wait()
				if len(memory.Revisions(acme)) > revisions {
					break
				}
				<-time.After(time.Second)
			}

			if took := time.Since(began); took != tt.wantAfter {
				t.Errorf("%s: after %s, want %s", tt.reason, took, tt.wantAfter)
			}
			var want ledger.Amount
			for _, kind := range objects.Kinds() {
				objects.View(kind, acme, func(o ledger.Observation, _ ledger.Observer) {
					for _, d := range o.Demands {
						want += d.Amount
					}
				})
			}
			expectCounted(t, tt.reason, memory, counted{Observed: want})
		}))
	}
}

func TestObservedIn(t *testing.T) {
	eu, us := dimensionsOf(t, "eu"), dimensionsOf(t, "us")
	demands := []ledger.Demand{
		{ResourceType: gpu, Dimensions: eu, Amount: 1, Objects: 1},
		{ResourceType: gpu, Dimensions: us, Amount: 2, Objects: 1},
		{ResourceType: "cpu", Amount: 3, Objects: 2},
	}
	observations := func(demands ...ledger.Demand) []ledger.Observation {
		return []ledger.Observation{
			{Kind: widgets, Basis: ledger.Basis{Objects: 3}, Demands: demands}, {Kind: gadgets, Demands: demands[:1]},
		}
	}
	of := func(all []ledger.Observation) ledgerstore.Observed { return ledgerstore.ObservedIn(slices.Values(all)) }
	base := of(observations(demands...))

	reversed := observations(demands...)
	slices.Reverse(reversed)
	reversed[1].Basis.Objects = 4
	reversed[1].Demands = []ledger.Demand{demands[2], demands[0], demands[1]}
	reversed = append(reversed, ledger.Observation{Kind: "example.com/v1/Empty"})
	if got := of(reversed); got != base {
		t.Errorf("equal demand in another order is %q, want %q", got, base)
	}

	for name, change := range map[string]func(d *ledger.Demand){
		"amount":     func(d *ledger.Demand) { d.Amount++ },
		"objects":    func(d *ledger.Demand) { d.Objects++ },
		"type":       func(d *ledger.Demand) { d.ResourceType += "s" },
		"dimensions": func(d *ledger.Demand) { d.Dimensions = eu },
	} {
		changed := slices.Clone(demands)
		change(&changed[2])
		if got := of(observations(changed...)); got == base {
			t.Errorf("another %s is the same: %q", name, got)
		}
	}
}

func dimensionsOf(t *testing.T, region string) ledger.Dimensions {
	t.Helper()
	d, err := ledger.NewDimensions(map[string]string{"region": region})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
