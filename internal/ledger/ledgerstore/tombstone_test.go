package ledgerstore_test

import (
	"testing"

	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A claim that is made from a tombstoned reservation, and granted all the same, gives nothing back, whatever the
// outcome of the write of the tombstone.
func TestTombstone(t *testing.T) {
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
			p.flush(t)
			id := ledgerstore.TombstoneID("u", sequence)
			for range 2 { // the second time, it is known from the ledger
				if isRecorded, err := p.Tombstone(t.Context(), acme, "policy/u", sequence); !isRecorded || err != nil {
					t.Errorf("recorded: %t, %v", isRecorded, err)
				}
			}
			p.Deliver()
			expect(t, "it is recorded", memory, summary{Limit: 10, Used: 4, Claims: 1, Released: []string{id}})
			drifted, _ := p.release(t, ledgerstore.ClaimCharges{ClaimUID: "c", Key: "policy/u", Sequence: sequence, Granted: true, Charges: charges(4)})
			if drifted {
				t.Error("the claim is taken for one whose charge was lost")
			}
			expect(t, "what another claim holds stays", memory, summary{Limit: 10, Used: 4, Claims: 1, Released: []string{id}})
		})
	}
}

// A reservation that has ended gets no tombstone: its claim may be charged.
func TestTombstoneOfASettledReservation(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	p.limit(t, 10)
	p.use(t, "policy/u", 4)
	if isRecorded, err := p.Tombstone(t.Context(), acme, "policy/u", 1); isRecorded || err != nil {
		t.Errorf("recorded: %t, %v; want neither", isRecorded, err)
	}
	expect(t, "the claim stays charged", memory, summary{Limit: 10, Used: 4, Claims: 1})
}
