package ledgerstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
)

func TestNewProcessKnowsWhatIsInFlight(t *testing.T) {
	memory := storagetest.New()
	old := start(t, memory, nil)
	old.limit(t, 10)
	old.reserve(t, ledgerstore.ObjectKey("policy", "object"), 1)
	old.reserve(t, ledgerstore.ClaimKey("claim", 5), 2)
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
	cancel(t, p, "policy/object")
	cancel(t, p, "claim:claim@5")
	if got := p.Reservations(); len(got) != 0 || len(p.ReservationsFor("object")) != 0 {
		t.Errorf("after everything was finished: %v in flight", got)
	}
	expect(t, "everything was finished", memory, summary{Limit: 10})
}

// A listed ledger may have changed since the list. Nothing is decided by the list alone.
func TestNothingIsDecidedByAnOldList(t *testing.T) {
	memory := storagetest.New()
	other := start(t, memory, nil)
	other.limit(t, 2)
	other.reserve(t, "early", 1)
	before := listed(memory)
	other.reserve(t, "late", 1)

	p := start(t, memory, nil)
	if err := p.Preload(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	decision, err := storagetest.Reserve(t.Context(), p, acme, reservation("beyond", 1))
	if err != nil || decision.Code != ledger.Exceeded {
		t.Errorf("by the list there was room for one more, and since then there is none: got %+v, %v, want it exceeded", decision, err)
	}
	expect(t, "nothing was written by the list", memory, summary{Limit: 2, Reserved: 2, Keys: []string{"early", "late"}})
}

// noticeOf returns the notice of a watch about a stored state of acme's ledger.
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
		"limit":   {func(t *testing.T, p *process) { p.limit(t, 20) }, []ledgerstore.Change{{CapacityGrew: true}}},
		"reserve": {func(t *testing.T, p *process) { p.reserve(t, "new", 1) }, []ledgerstore.Change{{}}},
		"cancel":  {func(t *testing.T, p *process) { cancel(t, p, "k") }, []ledgerstore.Change{{CapacityGrew: true}}},
		"denial":  {func(t *testing.T, p *process) { p.reserve(t, "new", 99) }, nil},
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
		cancel(t, other, "k")
		synctest.Wait()
		told = nil
		cancel(t, p, "k")
		synctest.Wait()
		if len(told) != 1 {
			t.Errorf("told %d times, want once", len(told))
		}
	})
}
