package ledgerstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

func TestOneWriteAcknowledgesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, open := storagetest.New(), make(gate)
		start(t, memory, nil).limit(t, 100)
		p := start(t, memory, open.faults)
		answers := make(chan ledger.Decision, 50)
		for _, key := range keys("p", cap(answers)) {
			go func() { answers <- p.reserve(t, key, 1) }()
			synctest.Wait() // the first is on its way to storage, the others queue behind it
		}
		close(open)
		for range cap(answers) {
			if decision := <-answers; decision.Code != ledger.Admitted {
				t.Errorf("decided %s", decision.Code)
			}
		}
		if got := p.Calls(storagetest.Write); got != 2 {
			t.Errorf("%d writes, want one for the first caller and one for all others", got)
		}
		if got := stored(t, memory); got.Reserved != 50 {
			t.Errorf("%d reserved, want 50", got.Reserved)
		}
	})
}

func TestDecisionsHoldOnTheCurrentLedger(t *testing.T) {
	tests := map[string]struct {
		reason    string
		meanwhile func(t *testing.T, other *process)
		amount    ledger.Amount
		want      ledger.Code
		wantCalls map[storagetest.Call]int
	}{
		"nothing happened": {
			reason: "a denial costs one look at the version",
			amount: 5, want: ledger.Exceeded,
			wantCalls: map[storagetest.Call]int{storagetest.CurrentVersion: 1},
		},
		"capacity was freed": {
			reason:    "a denial must not rest on what another process has given back since",
			meanwhile: func(t *testing.T, other *process) { cancel(t, other, "full") },
			amount:    5, want: ledger.Admitted,
			wantCalls: map[storagetest.Call]int{storagetest.CurrentVersion: 1, storagetest.Read: 1, storagetest.Write: 1},
		},
		"capacity was taken": {
			reason:    "an admission must not rest on what another process has taken since",
			meanwhile: func(t *testing.T, other *process) { other.reserve(t, "other", 4) },
			amount:    4, want: ledger.Exceeded,
			wantCalls: map[storagetest.Call]int{storagetest.Read: 1, storagetest.Write: 1},
		},
		"the limit was raised": {
			reason:    "a denial must not rest on an old limit",
			meanwhile: func(t *testing.T, other *process) { other.limit(t, 20) },
			amount:    5, want: ledger.Admitted,
			wantCalls: map[storagetest.Call]int{storagetest.CurrentVersion: 1, storagetest.Read: 1, storagetest.Write: 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p, other := start(t, memory, nil), start(t, memory, nil)
			p.limit(t, 10)
			p.reserve(t, "full", 6)
			if tt.meanwhile != nil {
				tt.meanwhile(t, other)
			}
			before := calls(p)
			if got := p.reserve(t, "new", tt.amount); got.Code != tt.want {
				t.Errorf("%s: decided %s, want %s", tt.reason, got.Code, tt.want)
			}
			got := calls(p)
			for call := range got {
				if got[call] -= before[call]; got[call] == 0 {
					delete(got, call)
				}
			}
			if diff := cmp.Diff(tt.wantCalls, got); diff != "" {
				t.Errorf("%s: calls to storage (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func cancel(t testing.TB, p *process, key string) {
	t.Helper()
	if err := p.Cancel(t.Context(), acme, key, 0); err != nil {
		t.Fatalf("cancel %s: %v", key, err)
	}
}

func calls(p *process) map[storagetest.Call]int {
	counts := map[storagetest.Call]int{}
	for _, call := range []storagetest.Call{storagetest.Read, storagetest.Write, storagetest.CurrentVersion} {
		counts[call] = p.Calls(call)
	}
	return counts
}

func TestNothingIsWrittenFor(t *testing.T) {
	tests := map[string]func(*testing.T, *process){
		"a denial":            func(t *testing.T, p *process) { p.reserve(t, "large", 11) },
		"a malformed request": func(t *testing.T, p *process) { p.reserve(t, "negative", -1) },
		"a reservation again": func(t *testing.T, p *process) { p.reserve(t, "known", 1) },
		"a dry run": func(t *testing.T, p *process) {
			_, _ = p.Apply(t.Context(), acme, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("dry", 1)}, DryRun: ledgerstore.Dry})
		},
		"cancelling nothing":    func(t *testing.T, p *process) { cancel(t, p, "unknown") },
		"cancelling another":    func(t *testing.T, p *process) { _ = p.Cancel(t.Context(), acme, "known", 99) },
		"the same limits":       func(t *testing.T, p *process) { p.limit(t, 10) },
		"looking at the ledger": func(t *testing.T, p *process) { p.flush(t) },
	}
	for name, ask := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			p := start(t, memory, nil)
			p.limit(t, 10)
			p.reserve(t, "known", 1)
			before := p.Calls(storagetest.Write)
			ask(t, p)
			if got := p.Calls(storagetest.Write) - before; got != 0 {
				t.Errorf("%d writes", got)
			}
		})
	}
}

func TestReserveChargesOnce(t *testing.T) {
	tests := map[string]struct {
		reason string
		faults []storagetest.Fault
	}{
		"no fault":   {reason: "a repeated request finds the reservation of the first"},
		"lost":       {reason: "a write that never arrived is repeated", faults: []storagetest.Fault{storagetest.Lost}},
		"overtaken":  {reason: "a conflict is decided again", faults: []storagetest.Fault{storagetest.Overtaken, storagetest.Overtaken}},
		"unanswered": {reason: "a write whose answer was lost is recognised", faults: []storagetest.Fault{storagetest.Unanswered}},
		"late":       {reason: "a write that arrives after its repetition is rejected by storage", faults: []storagetest.Fault{storagetest.Late, storagetest.Lost}},
		"everything": {reason: "faults may follow each other", faults: []storagetest.Fault{storagetest.Late, storagetest.Overtaken, storagetest.Unanswered}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			start(t, memory, nil).limit(t, 10)
			p, other := start(t, memory, script(tt.faults...)), start(t, memory, nil)
			first, second := p.reserve(t, "k", 4), other.reserve(t, "k", 4)
			p.Deliver()
			if first.Code != ledger.Admitted || !second.Existing || second.Sequence != first.Sequence {
				t.Errorf("%s: decided %+v and then %+v", tt.reason, first, second)
			}
			expect(t, tt.reason, memory, summary{Limit: 10, Reserved: 4, Keys: []string{"k"}})
		})
	}
}

func TestReserveFails(t *testing.T) {
	always := func(fault storagetest.Fault) func(context.Context, storagetest.Call) storagetest.Fault {
		return func(_ context.Context, call storagetest.Call) storagetest.Fault {
			if call == storagetest.Write {
				return fault
			}
			return storagetest.None
		}
	}
	tests := map[string]struct {
		reason     string
		faults     func(context.Context, storagetest.Call) storagetest.Fault
		wantWrites int
	}{
		"outage": {
			reason: "without the ledger nothing can be said",
			faults: func(context.Context, storagetest.Call) storagetest.Fault { return storagetest.Lost },
		},
		"writes are lost":     {reason: "unknown outcomes in a row are bounded", faults: always(storagetest.Lost), wantWrites: 4},
		"writes are rejected": {reason: "trying again cannot help", faults: always(storagetest.Rejected), wantWrites: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			start(t, memory, nil).limit(t, 10)
			p := start(t, memory, tt.faults)
			decision, err := storagetest.Reserve(t.Context(), p, acme, reservation("k", 1))
			if err == nil || decision.Code != 0 {
				t.Errorf("%s: decided %+v, error %v", tt.reason, decision, err)
			}
			if got := p.Calls(storagetest.Write); got != tt.wantWrites {
				t.Errorf("%s: %d writes, want %d", tt.reason, got, tt.wantWrites)
			}
			expect(t, tt.reason, memory, summary{Limit: 10})
			if got := p.Reservations(); len(got) != 0 {
				t.Errorf("%s: the process believes in reservations %v", tt.reason, got)
			}
		})
	}
}

func TestCallersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, open := storagetest.New(), make(gate)
		start(t, memory, nil).limit(t, 10)
		p := start(t, memory, open.faults)
		first, second := make(chan error, 1), make(chan error, 1)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() { _, err := storagetest.Reserve(t.Context(), p, acme, reservation("stays", 1)); first <- err }()
		synctest.Wait()
		go func() { _, err := storagetest.Reserve(ctx, p, acme, reservation("leaves", 1)); second <- err }()
		if err := <-second; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller who left got %v", err)
		}
		close(open)
		if err := <-first; err != nil {
			t.Errorf("the caller who stayed got %v", err)
		}
		p.flush(t)
		expect(t, "who left before being decided reserves nothing", memory, summary{Limit: 10, Reserved: 1, Keys: []string{"stays"}})
	})
}

func TestEndOfTheStoreEndsItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		start(t, memory, nil).limit(t, 10)
		p := start(t, memory, make(gate).faults)
		done := make(chan error, 1)
		go func() { _, err := storagetest.Reserve(context.Background(), p, acme, reservation("k", 1)); done <- err }()
		synctest.Wait()
		p.stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller got %v", err)
		}
		time.Sleep(time.Second) // of the test's own clock: pending calls have failed
		before := calls(p)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(before, calls(p)); diff != "" {
			t.Errorf("calls after the end (-before +after):\n%s", diff)
		}
	})
}

func TestDryRunOfSeparateReservations(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	p.reserve(t, "known", 2)
	before := p.Calls(storagetest.Write)
	outcome, err := p.Apply(t.Context(), acme, ledgerstore.Request{Separately: true, DryRun: ledgerstore.Dry, Reservations: []ledger.Reservation{
		reservation("known", 2), reservation("large", 9), reservation("a", 5), reservation("b", 4), reservation("c", 3),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var fits []bool
	for _, d := range outcome.Decisions {
		fits = append(fits, d.Code == ledger.Admitted)
	}
	if diff := cmp.Diff([]bool{true, false, true, false, true}, fits); diff != "" {
		t.Errorf("smaller ones may pass a larger one (-want +got):\n%s", diff)
	}
	if got := p.Calls(storagetest.Write) - before; got != 0 {
		t.Errorf("%d writes, want none", got)
	}
	p.reserve(t, "last", 8) // it fits, because there is no reservation
	expect(t, "nothing of it is in the ledger", memory, summary{Limit: 10, Reserved: 10, Keys: []string{"known", "last"}})
}

// A process with an old copy of the ledger acts on the changes of another process.
func TestOldCopiesAreNotTrusted(t *testing.T) {
	memory := storagetest.New()
	p, other := start(t, memory, nil), start(t, memory, nil)
	p.limit(t, 10)
	other.reserve(t, "k", 4)
	var reserved ledger.Amount
	err := p.View(t.Context(), acme, func(l *ledger.Ledger) { reserved = l.Account(gpu).Reserved })
	if err != nil || reserved != 4 {
		t.Errorf("a view shows %d reserved, error %v, want 4", reserved, err)
	}
	other.reserve(t, "l", 1)
	cancel(t, p, "l")
	expect(t, "the reservation of the other process is cancelled", memory, summary{Limit: 10, Reserved: 4, Keys: []string{"k"}})
}
