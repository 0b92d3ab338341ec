package ledgerstore_test

import (
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A claim from a withdrawn reservation, granted all the same, gives nothing back, after any outcome of the withdrawing
// write.
func TestWithdraw(t *testing.T) {
	for name, fault := range map[string]storagetest.Fault{
		"written": storagetest.None, "lost": storagetest.Lost, "unanswered": storagetest.Unanswered, "late": storagetest.Late, "overtaken": storagetest.Overtaken,
	} {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			other := start(t, memory, nil)
			other.limit(t, 10)
			other.use(t, "standing/u", 4)
			sequence := other.reserve(t, "policy/u", 4).Sequence
			p := start(t, memory, script(fault))
			p.look(t)
			for range 2 { // the second time, the ledger has it
				if isWithdrawn, err := p.Withdraw(t.Context(), acme, "policy/u", sequence); !isWithdrawn || err != nil {
					t.Errorf("withdrawn: %t, %v", isWithdrawn, err)
				}
			}
			p.Deliver()
			if !p.IsWithdrawn(acme, sequence) || p.IsWithdrawn(acme, sequence-1) || p.IsWithdrawn(acme, 0) {
				t.Error("the process does not know which sequence was withdrawn")
			}
			expect(t, "nothing is in flight", memory, summary{Limit: 10, Used: 4, Claims: 1})
			drifted, _ := p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "policy/u", Sequence: sequence, Granted: true, Charges: charges(4)})
			if drifted {
				t.Error("the claim is taken for one whose charge was lost")
			}
			expect(t, "what another claim holds stays", memory, summary{Limit: 10, Used: 4, Claims: 1})
		})
	}
}

// Withdraw does not withdraw the sequence of a settled reservation: usage has its claim.
func TestWithdrawAfterSettling(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	p.use(t, "policy/u", 4)
	if isWithdrawn, err := p.Withdraw(t.Context(), acme, "policy/u", 1); isWithdrawn || err != nil {
		t.Errorf("withdrawn: %t, %v; want neither", isWithdrawn, err)
	}
	expect(t, "the claim stays charged", memory, summary{Limit: 10, Used: 4, Claims: 1})
}

// After a takeover of a reservation its former owner can no longer settle it, and learns of the missing charge of its
// claim.
func TestTakeOver(t *testing.T) {
	for name, fault := range map[string]storagetest.Fault{
		"written": storagetest.None, "lost": storagetest.Lost, "unanswered": storagetest.Unanswered, "late": storagetest.Late, "overtaken": storagetest.Overtaken,
	} {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			owner := start(t, memory, nil)
			owner.limit(t, 10)
			former := owner.reserve(t, "policy/u", 4).Sequence
			p := start(t, memory, script(fault))
			p.look(t)
			if known, _ := p.ReservationOf(acme, "policy/u"); known.IsOwn {
				t.Error("it is taken for an own one")
			}
			taken, ok, err := p.TakeOver(t.Context(), acme, "policy/u", former)
			for !ok && err == nil { // after a lost answer, it has another sequence now
				known, _ := p.ReservationOf(acme, "policy/u")
				taken, ok, err = p.TakeOver(t.Context(), acme, "policy/u", known.Sequence)
			}
			p.Deliver()
			if err != nil || !taken.IsOwn || taken.Sequence <= former || !p.IsWithdrawn(acme, former) {
				t.Fatalf("taken over: %+v, %v", taken, err)
			}
			isTold := false
			owner.SettleOr(acme, "policy/u", former, func() { isTold = true })
			owner.flush(t)
			if !isTold {
				t.Error("the former owner does not know that its claim is charged nowhere")
			}
			p.SettleOr(acme, "policy/u", taken.Sequence, func() { t.Error("the claim of the owner is to be removed") })
			p.flush(t)
			expect(t, "one claim is charged", memory, summary{Limit: 10, Used: 4, Claims: 1})
		})
	}
}

// A reservation is a process's own only if this process knows that it made it.
func TestOwnReservations(t *testing.T) {
	memory := storagetest.New()
	first, second := start(t, memory, nil), start(t, memory, nil)
	first.limit(t, 10)
	first.reserve(t, "policy/u", 4)
	second.reserve(t, "policy/u", 4)
	for name, want := range map[*process]bool{first: true, second: false} {
		if known, isKnown := name.ReservationOf(acme, "policy/u"); !isKnown || known.IsOwn != want {
			t.Errorf("known: %t, its own: %t; want %t", isKnown, known.IsOwn, want)
		}
	}
	asked := ledgerstore.Request{Reservations: []ledger.Reservation{reservation("policy/u", 4)}, TakesOver: true}
	if outcome, err := second.Apply(t.Context(), acme, asked); err != nil || outcome.Code != ledger.Admitted {
		t.Fatal(outcome.Code, err)
	}
	if known, _ := second.ReservationOf(acme, "policy/u"); !known.IsOwn {
		t.Error("one that was taken over is not its own")
	}
}
