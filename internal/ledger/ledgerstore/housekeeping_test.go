package ledgerstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
)

func TestHousekeepingRidesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 10)
		p.reserve(t, "a", 1)
		before := p.Calls(storagetest.Write)
		p.Settle(acme, "a", 0)
		p.reserve(t, "b", 1)
		if got := p.Calls(storagetest.Write) - before; got != 1 {
			t.Errorf("%d writes, want 1 for both", got)
		}
		expect(t, "both took effect", memory, summary{Limit: 10, Used: 1, Claims: 1, Reserved: 1, Keys: []string{"b"}})
	})
}

func TestHousekeepingHappensByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 100)
		all := keys("p", 20)
		for _, key := range all {
			p.reserve(t, key, 1)
		}
		before := p.Calls(storagetest.Write)
		for _, key := range all {
			p.Settle(acme, key, 0)
		}
		if got := p.Reservations(); len(got) != 0 {
			t.Errorf("the process still has to do with %d reservations", len(got))
		}
		time.Sleep(time.Second)
		if got := p.Calls(storagetest.Write) - before; got != 0 {
			t.Errorf("%d writes within a second, want none: another commit may come", got)
		}
		time.Sleep(3 * time.Second)
		if got := p.Calls(storagetest.Write) - before; got != 1 {
			t.Errorf("%d writes, want 1 for all", got)
		}
		expect(t, "all are settled", memory, summary{Limit: 100, Used: 20, Claims: 20})
		if got := p.Reservations(); len(got) != 0 {
			t.Errorf("the process still believes in %d reservations", len(got))
		}
	})
}

// A view does not commit waiting settlements, and the store decides changes of the ledger after them.
func TestSettledBeforeAnyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 10)
		p.reserve(t, "k", 4)
		p.Settle(acme, "k", 0)
		p.look(t)
		expect(t, "after a view", memory, summary{Limit: 10, Reserved: 4, Keys: []string{"k"}})
		start(t, memory, nil).limit(t, 20) // another process writes
		p.look(t)
		if got := p.Reservations(); len(got) != 0 {
			t.Errorf("the process has forgotten that it settles %v", got)
		}
		p.reserve(t, "other", 2)
		expect(t, "after a change", memory, summary{Limit: 20, Used: 4, Claims: 1, Reserved: 2, Keys: []string{"other"}})
	})
}

// An ended process leaves nothing to settle.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 10)
		p.reserve(t, "k", 4)
		p.Settle(acme, "k", 0)
		before := p.Calls(storagetest.Write)
		for range 2 {
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Calls(storagetest.Write) - before; got != 1 {
			t.Errorf("%d writes, want 1", got)
		}
		expect(t, "it is settled", memory, summary{Limit: 10, Used: 4, Claims: 1})
	})
}

func TestHousekeepingSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		var outage atomic.Bool
		p := start(t, memory, func(context.Context, storagetest.Call) storagetest.Fault {
			if outage.Load() {
				return storagetest.Lost
			}
			return storagetest.None
		})
		p.limit(t, 10)
		p.use(t, "old", 2)
		p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "old", Granted: true, Charges: charges(2)})
		p.reserve(t, "k", 1)
		outage.Store(true)
		p.Settle(acme, "k", 0)
		p.Forget(acme, "c")
		before := p.Calls(storagetest.Read) + p.Calls(storagetest.Write)
		time.Sleep(time.Minute)
		if calls := p.Calls(storagetest.Read) + p.Calls(storagetest.Write) - before; calls < 5 || calls > 30 {
			t.Errorf("storage was asked %d times in a minute, want a few times", calls)
		}
		expect(t, "nothing can be written yet", memory, summary{Limit: 10, Reserved: 1, Keys: []string{"k"}, Released: []string{"c"}})
		outage.Store(false)
		time.Sleep(16 * time.Second)
		expect(t, "what was asked for is done", memory, summary{Limit: 10, Used: 1, Claims: 1})
		p.reserve(t, "k2", 1)
		p.Settle(acme, "k2", 0)
		time.Sleep(4 * time.Second)
		expect(t, "after that it is as quick as before", memory, summary{Limit: 10, Used: 2, Claims: 2})
	})
}

func TestNewProcessKnowsWhatIsInFlight(t *testing.T) {
	memory := storagetest.New()
	old := start(t, memory, nil)
	old.limit(t, 10)
	old.reserve(t, ledgerstore.ObjectKey("policy", "object"), 1)
	old.reserve(t, ledgerstore.ClaimKey("claim", 5), 2)
	old.use(t, "gone", 3)
	old.release(t, ledgerstore.ClaimCharges{ClaimUID: "released", Key: "gone", Granted: true, Charges: charges(3)})
	old.stop()

	p := start(t, memory, nil)
	if err := p.Preload(t.Context(), listed(memory)); err != nil {
		t.Fatal(err)
	}
	if got := p.Calls(storagetest.Read) + p.Calls(storagetest.CurrentVersion); got != 0 {
		t.Errorf("storage was asked %d times, want none: the list has everything", got)
	}
	inFlight := map[string]string{}
	for _, pending := range p.Reservations() {
		inFlight[pending.Key] = pending.Claim
	}
	want := map[string]string{"policy/object": "claim of policy/object", "claim:claim@5": "claim of claim:claim@5"}
	if diff := cmp.Diff(want, inFlight); diff != "" {
		t.Errorf("reservations in flight (-want +got):\n%s", diff)
	}
	if got := p.ReservationsFor("object"); len(got) != 1 || got[0].Consumer != acme {
		t.Errorf("reservations for the object: %+v", got)
	}
	if diff := cmp.Diff(map[quotav1alpha1.ConsumerRef][]string{acme: {"released"}}, p.ReleasedLongAgo(0)); diff != "" {
		t.Errorf("released claims (-want +got):\n%s", diff)
	}
	cancel(t, p, "policy/object")
	p.Settle(acme, "claim:claim@5", 0)
	p.Forget(acme, "released")
	p.flush(t)
	if got := p.Reservations(); len(got) != 0 || len(p.ReservationsFor("object")) != 0 || len(p.ReleasedLongAgo(0)) != 0 {
		t.Errorf("after everything was finished: %v in flight, %v released", got, p.ReleasedLongAgo(0))
	}
	expect(t, "everything was finished", memory, summary{Limit: 10, Used: 2, Claims: 1})
}

// noticeOf returns the notice of a watch about a stored state of acme's ledger.
// A listed ledger may have changed since the list. Nothing is decided by the list alone.
func TestNothingIsDecidedByAnOldList(t *testing.T) {
	memory := storagetest.New()
	other := start(t, memory, nil)
	other.limit(t, 2)
	other.reserve(t, "early", 1)
	before := listed(memory)
	other.reserve(t, "late", 1)
	other.Settle(acme, "early", 0)
	other.flush(t)

	p := start(t, memory, nil)
	if err := p.Preload(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	decision, err := storagetest.Reserve(t.Context(), p, acme, reservation("beyond", 1))
	if err != nil || decision.Code != ledger.Exceeded {
		t.Errorf("by the list there was room for one more, and since then there is none: got %+v, %v, want it exceeded", decision, err)
	}
	expect(t, "nothing was written by the list", memory, summary{Limit: 2, Used: 1, Claims: 1, Reserved: 1, Keys: []string{"late"}})
}

func noticeOf(r storagetest.Revision) ledgerstore.Notice {
	return ledgerstore.Notice{Name: naming.Ledger(acme), Version: r.Version, Unfinished: ledgerstore.UnfinishedIn(&r.Snapshot)}
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p, other := start(t, memory, nil), start(t, memory, nil)
		var told []ledgerstore.Change
		p.Subscribe(func(_ quotav1alpha1.ConsumerRef, change ledgerstore.Change) { told = append(told, change) })
		p.limit(t, 10)
		own := memory.Revisions(acme)
		other.reserve(t, ledgerstore.ObjectKey("policy", "object"), 1)
		all := memory.Revisions(acme)
		synctest.Wait()
		told = nil

		p.Observe(noticeOf(own[len(own)-1]))
		synctest.Wait()
		if got := p.Calls(storagetest.Read); got != 1 || len(told) != 0 {
			t.Errorf("its own write: %d reads, told %v", got, told)
		}
		p.Observe(noticeOf(all[len(all)-1]))
		synctest.Wait()
		if got := p.Calls(storagetest.Read); got != 2 || len(told) != 1 {
			t.Errorf("another's write: %d reads, told %v", got, told)
		}
		if got := p.ReservationsFor("object"); len(got) != 1 {
			t.Errorf("the other's reservation is not known: %v", got)
		}
	})
}

func TestSubscribersHearOfCapacity(t *testing.T) {
	tests := map[string]struct {
		change func(*testing.T, *process)
		want   []ledgerstore.Change
	}{
		"limit":    {func(t *testing.T, p *process) { p.limit(t, 20) }, []ledgerstore.Change{{CapacityGrew: true}}},
		"reserve":  {func(t *testing.T, p *process) { p.reserve(t, "new", 1) }, []ledgerstore.Change{{}}},
		"cancel":   {func(t *testing.T, p *process) { cancel(t, p, "k") }, []ledgerstore.Change{{CapacityGrew: true}}},
		"settle":   {func(t *testing.T, p *process) { p.Settle(acme, "k", 0); p.flush(t) }, []ledgerstore.Change{{}}},
		"denial":   {func(t *testing.T, p *process) { p.reserve(t, "new", 99) }, nil},
		"released": {func(t *testing.T, p *process) { p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "k"}) }, []ledgerstore.Change{{CapacityGrew: true}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, storagetest.New(), nil)
				var told []ledgerstore.Change
				p.Subscribe(func(_ quotav1alpha1.ConsumerRef, change ledgerstore.Change) { told = append(told, change) })
				p.limit(t, 10)
				p.reserve(t, "k", 4)
				synctest.Wait()
				told = nil
				tt.change(t, p)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, told); diff != "" {
					t.Errorf("changes told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Subscribers also hear of changes of another process found by an operation without any change of its own: the later
// observation of the same version is not news.
func TestSubscribersHearOfFoundChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p, other := start(t, memory, nil), start(t, memory, nil)
		var told []ledgerstore.Change
		p.Subscribe(func(_ quotav1alpha1.ConsumerRef, change ledgerstore.Change) { told = append(told, change) })
		p.limit(t, 10)
		p.reserve(t, "k", 4)
		other.Settle(acme, "k", 0)
		other.flush(t)
		synctest.Wait()
		told = nil
		p.Settle(acme, "k", 0)
		p.flush(t)
		synctest.Wait()
		if len(told) != 1 {
			t.Errorf("told %d times, want once", len(told))
		}
	})
}
