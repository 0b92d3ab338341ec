package ledgerstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// holding starts a process with a slice: of a limit of 10,000 it holds 8.
func holding(t *testing.T, memory *storagetest.Memory, faults func(context.Context, storagetest.Call) storagetest.Fault) *process {
	t.Helper()
	p := start(t, memory, faults)
	p.limit(t, 10_000)
	if p.escrow("p/before", 2) || p.escrow("p/first", 2) {
		t.Fatal("the first creates were admitted without a slice")
	}
	p.reserve(t, "p/first", 4)
	expectSlices(t, "a process that needed quota holds some for the next creates", memory, 8)
	return p
}

func (p *process) escrow(key string, amount ledger.Amount) bool {
	return p.Escrow(acme, []ledger.Reservation{awaiting(key, amount)}, ledgerstore.Spare{})
}

// outage, while true, blocks every call.
type outage struct{ atomic.Bool }

func (o *outage) faults(ctx context.Context, _ storagetest.Call) storagetest.Fault {
	if o.Load() {
		<-ctx.Done()
	}
	return storagetest.None
}

// standStill has a holder admit 3 from its slice, and another process revoke the slice, while the holder is blocked.
func standStill(t *testing.T, p *process, memory *storagetest.Memory, blocked *outage) (other *process) {
	t.Helper()
	blocked.Store(true)
	if !p.escrow("p/a", 3) {
		t.Fatal("not admitted from the slice")
	}
	other = start(t, memory, nil)
	other.look(t)
	<-time.After(ledgerstore.SliceStalledAfter)
	if known := other.ForeignSlices(); len(known) != 1 || !known[0].IsStalled() {
		t.Fatalf("known are %+v", known)
	}
	if _, err := storagetest.Reserve(t.Context(), other, acme, reservation("p/all", 9_996)); err != ledgerstore.ErrSliced { //nolint:errorlint // as documented
		t.Errorf("a request for what the other process holds: %v", err)
	}
	if err := other.RevokeSlice(t.Context(), other.ForeignSlices()[0]); err != nil {
		t.Fatal(err)
	}
	return other
}

// expectSlices compares the amounts of the stored slices.
func expectSlices(t *testing.T, reason string, memory *storagetest.Memory, want ...ledger.Amount) {
	t.Helper()
	var got []ledger.Amount
	for _, s := range memory.Snapshot(acme).Slices {
		got = append(got, s.Amounts[gpu])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: slices (-want +got):\n%s", reason, diff)
	}
}

func slicedIn(snapshot ledger.Snapshot) (sum ledger.Amount) {
	for _, s := range snapshot.Slices {
		sum += s.Amounts[gpu]
	}
	return sum
}

func inBubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

func TestEscrow(t *testing.T) {
	t.Run("is recorded later, and the slice returns when nobody asks", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		writes := p.Calls(storagetest.Write)
		if !p.escrow("p/a", 4) || !p.escrow("p/b", 4) {
			t.Fatal("not admitted from the slice")
		}
		if p.Calls(storagetest.Write) != writes {
			t.Error("an admission was written before the answer")
		}
		if r := p.ReservationsFor("a"); len(r) != 1 || !r[0].IsUnrecorded || !r[0].IsOwn {
			t.Errorf("the store knows %+v", r)
		}
		if p.escrow("p/c", 1) {
			t.Error("more was admitted than the slice has")
		}
		<-time.After(3 * time.Second)
		if s := stored(t, memory); s.Reserved != 12 {
			t.Errorf("after the delay %d are reserved", s.Reserved)
		}
		if r := p.ReservationsFor("a"); len(r) != 1 || r[0].IsUnrecorded || r[0].Sequence == 0 {
			t.Errorf("the store knows %+v", r)
		}
		<-time.After(20 * time.Second)
		expectSlices(t, "without demand nothing is held", memory)
	}))
	t.Run("ends with its lease", inBubble(func(t *testing.T) {
		memory, blocked := storagetest.New(), &outage{}
		p := holding(t, memory, blocked.faults)
		blocked.Store(true)
		<-time.After(6 * time.Second)
		p.escrow("p/a", 1) // for some demand
		<-time.After(3 * time.Second)
		if !p.escrow("p/b", 1) {
			t.Error("not admitted within the lease")
		}
		<-time.After(time.Second)
		if p.escrow("p/c", 1) {
			t.Error("admitted after the lease")
		}
	}))
	t.Run("covers the least that an unanswered write may leave", inBubble(func(t *testing.T) {
		memory, fault := storagetest.New(), &atomic.Int64{}
		p := holding(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
			if call == storagetest.Write {
				return storagetest.Fault(fault.Load())
			}
			return storagetest.None
		})
		fault.Store(int64(storagetest.Late))
		<-time.After(9 * time.Second) // the slice returns, maybe
		expectSlices(t, "no write was answered", memory, 8)
		p.look(t)
		if p.escrow("p/a", 1) {
			t.Error("admitted from a slice that a late write may end")
		}
		p.Deliver()
		expectSlices(t, "the late write ended it", memory)
	}))
	t.Run("makes way for a request that needs it", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		if !p.escrow("p/a", 3) {
			t.Fatal("not admitted from the slice")
		}
		if d := p.reserve(t, "p/large", 9_994); d.Code != ledger.Exceeded || d.Shortages[0].Used != 7 || d.Shortages[0].Available != 9_993 {
			t.Errorf("a request for more than there is: %+v", d)
		}
		if !p.escrow("p/b", 1) {
			t.Error("a denial ended the slice")
		}
		if d := p.reserve(t, "p/rest", 9_992); d.Code != ledger.Admitted {
			t.Errorf("a request for the rest: %+v", d)
		}
		if p.escrow("p/c", 1) {
			t.Error("admitted beyond the limit")
		}
		if s := stored(t, memory); s.Reserved != 10_000 {
			t.Errorf("%d are reserved", s.Reserved)
		}
	}))
	t.Run("survives another process's write", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		if !p.escrow("p/a", 3) {
			t.Fatal("not admitted from the slice")
		}
		start(t, memory, nil).reserve(t, "p/other", 1)
		p.look(t)
		if r := p.ReservationsFor("a"); len(r) != 1 || !r[0].IsUnrecorded {
			t.Errorf("the store knows %+v", r)
		}
		<-time.After(3 * time.Second)
		if s := stored(t, memory); s.Reserved != 8 {
			t.Errorf("%d are reserved", s.Reserved)
		}
	}))
	t.Run("keeps what it has to cover", inBubble(func(t *testing.T) {
		for request, want := range map[ledger.Amount]ledger.Code{9_992: ledger.Admitted, 9_993: ledger.Exceeded} {
			memory, read := storagetest.New(), make(chan struct{})
			var fault atomic.Int64
			p := holding(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
				if call == storagetest.Read && fault.Swap(0) != 0 {
					<-read
				}
				return storagetest.Fault(fault.Load())
			})
			start(t, memory, nil).reserve(t, "p/other", 1)
			p.look(t)
			fault.Store(int64(storagetest.Rejected))
			if _, err := storagetest.Reserve(t.Context(), p, acme, reservation("p/rejected", 1)); err == nil {
				t.Fatal("storage took it")
			}
			go func() {
				<-time.After(time.Second) // the batch with the request reads the ledger again
				if !p.escrow("p/a", 3) {
					t.Error("not admitted from the slice")
				}
				close(read)
			}()
			d := p.reserve(t, "p/large", request)
			if d.Code != want || want == ledger.Exceeded && (d.Shortages[0].Used != 8 || d.Shortages[0].Available != 9_992) {
				t.Errorf("a request for %d: %+v", request, d)
			}
			<-time.After(3 * time.Second)
			if s := stored(t, memory); s.Reserved > 10_000 || s.Reserved < 8 {
				t.Errorf("%d are reserved", s.Reserved)
			}
			for _, revision := range memory.Revisions(acme)[4:] {
				s := summarize(t, revision.Snapshot)
				if covered := s.Reserved + slicedIn(revision.Snapshot); covered < 8 || covered > 10_000 {
					t.Errorf("revision %s covers %d", revision.Version, covered)
				}
			}
		}
	}))
	t.Run("is in nobody's way in an overdraft, and in a dry run", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		outcome, err := p.Apply(t.Context(), acme, ledgerstore.Request{
			Reservations: []ledger.Reservation{reservation("p/x", 9_996)}, DryRun: ledgerstore.Dry,
		})
		if err != nil || outcome.Code != ledger.Admitted {
			t.Errorf("dry: %+v, %v", outcome, err)
		}
		expectSlices(t, "a dry run changes nothing", memory, 8)
		outcome, err = p.Apply(t.Context(), acme, ledgerstore.Request{
			Reservations: []ledger.Reservation{reservation("p/x", 9_996)}, Separately: true, Overdraft: true,
		})
		if err != nil || outcome.Code != ledger.Admitted || len(outcome.Decisions[0].Shortages) > 0 {
			t.Errorf("overdraft: %+v, %v", outcome, err)
		}
	}))
	t.Run("returns with the end of its process", inBubble(func(t *testing.T) {
		memory := storagetest.New()
		p := holding(t, memory, nil)
		p.escrow("p/a", 3)
		p.flush(t)
		expectSlices(t, "at the end", memory)
		if s := stored(t, memory); s.Reserved != 7 || p.escrow("p/b", 1) {
			t.Errorf("%d are reserved, or more is admitted", s.Reserved)
		}
	}))
	t.Run("is not for a process that writes everything first", inBubble(func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		p.IsDurable = true
		p.limit(t, 10_000)
		for _, key := range keys("p", 5) {
			if p.escrow(key, 1) {
				t.Fatal("admitted without a write")
			}
			p.reserve(t, key, 1)
		}
	}))
}

func TestForeignSlices(t *testing.T) {
	t.Run("are revoked and dropped", inBubble(func(t *testing.T) {
		memory, blocked := storagetest.New(), &outage{}
		p := holding(t, memory, blocked.faults)
		standStill(t, p, memory, blocked)
		blocked.Store(false)
		p.look(t)
		if p.escrow("p/b", 1) {
			t.Error("admitted from a revoked slice")
		}
		<-time.After(10 * time.Second)
		expectSlices(t, "its holder lives, knows what it has admitted, and returns the rest", memory)
		if s := stored(t, memory); s.Reserved != 7 {
			t.Errorf("%d are reserved", s.Reserved)
		}
	}))
	t.Run("of a holder that was away too long are not recorded", inBubble(func(t *testing.T) {
		memory, blocked := storagetest.New(), &outage{}
		p := holding(t, memory, blocked.faults)
		q := standStill(t, p, memory, blocked)
		<-time.After(q.AppearanceMax())
		if isDropped, err := q.EndSlice(t.Context(), q.ForeignSlices()[0], nil); err != nil || !isDropped {
			t.Fatal(isDropped, err)
		}
		q.reserve(t, "p/fill", 9_995)
		blocked.Store(false)
		cancel(t, p, "p/first") // it writes
		<-time.After(time.Minute)
		if s := stored(t, memory); s.Used != 0 || s.Reserved != 9_995 || len(p.ReservationsFor("a")) > 0 {
			t.Errorf("%d are used and %d reserved, known are %v", s.Used, s.Reserved, p.ReservationsFor("a"))
		}
		for _, revision := range memory.Revisions(acme) {
			if s := summarize(t, revision.Snapshot); s.Used+s.Reserved+slicedIn(revision.Snapshot) > 10_000 {
				t.Errorf("revision %s: slices beyond the limit", revision.Version)
			}
		}
	}))
	t.Run("are forgotten with the notice that there are none", inBubble(func(t *testing.T) {
		w := newWatched(t)
		for _, key := range []string{"p/1", "p/2"} {
			w.preferred.escrow(key, 2)
		}
		w.preferred.reserve(t, "p/2", 2)
		w.isPreferred.Store(true)
		w.other.look(t)
		if known := w.other.ForeignSlices(); len(known) != 1 {
			t.Fatalf("known are %+v", known)
		}
		w.isPreferred.Store(false)
		w.other.ObserveOf(acme, ledgerstore.Notice{Version: "999999", Unfinished: ledgerstore.NothingUnfinished})
		w.isPreferred.Store(true)
		if known := w.other.ForeignSlices(); len(known) != 0 {
			t.Errorf("known are %+v", known)
		}
	}))
}
