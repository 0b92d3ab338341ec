package ledgerstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
)

const (
	crashes     = 12
	crashLimit  = 40
	crashWorker = 8
	// crashJournalDelay is the delay of the journal. It is shorter than most lives of a process.
	crashJournalDelay = 5 * time.Millisecond
)

// host runs one process after the other on one storage. It kills each at a random moment.
type host struct {
	memory  *storagetest.Memory
	archive *archive

	mu      sync.Mutex
	random  *rand.Rand
	current *process
	// acknowledged are the reservations in flight with an answer to their callers.
	acknowledged map[string]int64
	granted      map[string]ledger.Amount
	gone         map[string]bool
}

func TestCrashes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crash(t, seed) })
		})
	}
}

func crash(t *testing.T, seed uint64) {
	h := &host{
		memory: storagetest.New(), random: rand.New(rand.NewPCG(seed, 0)),
		acknowledged: map[string]int64{}, granted: map[string]ledger.Amount{}, gone: map[string]bool{},
	}
	h.archive = newArchive(t, h.memory, seed)
	start(t, h.memory, nil).limit(t, crashLimit) // as an earlier version, without a journal
	h.restart(t)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for worker := range crashWorker {
		workers.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				h.live(ctx, t, fmt.Sprintf("p/%d-%d", worker, life))
			}
		})
	}
	for range crashes {
		<-time.After(time.Duration(h.roll(100)) * time.Millisecond)
		h.kill(t)
		h.restart(t)
	}
	stop()
	workers.Wait()
	h.settleUp(t)
}

func (h *host) roll(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

// fault gives every call a random duration, and some of them a fault.
func (h *host) fault(ctx context.Context, _ storagetest.Call) storagetest.Fault {
	select {
	case <-time.After(time.Duration(h.roll(3000)) * time.Microsecond):
	case <-ctx.Done():
	}
	if h.roll(10) > 0 {
		return storagetest.None
	}
	return []storagetest.Fault{storagetest.Lost, storagetest.Unanswered, storagetest.Late}[h.roll(3)]
}

// restart starts a process to finish the work of the one before.
func (h *host) restart(t *testing.T) {
	p := h.archive.record(start(t, h.memory, h.fault), crashJournalDelay)
	for p.Preload(t.Context(), listed(h.memory)) != nil { // until storage answers
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = p
	for _, r := range p.Reservations() {
		if h.granted[r.Key] > 0 {
			p.Settle(acme, r.Key, r.Sequence)
		}
	}
	for _, claim := range p.ReleasedLongAgo(-1)[acme] {
		if h.gone[claim] {
			p.Forget(acme, claim)
		}
	}
}

// listed returns the stored ledgers as a list shows them.
func listed(memory *storagetest.Memory) []quotav1alpha1.ConsumerLedger {
	revisions := memory.Revisions(acme)
	if len(revisions) == 0 {
		return nil
	}
	latest := revisions[len(revisions)-1]
	return []quotav1alpha1.ConsumerLedger{{
		ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(acme), ResourceVersion: string(latest.Version)},
		Spec:       ledgerstore.SpecOf(acme, latest.Snapshot),
	}}
}

// kill ends the process in the middle of everything and requires its acknowledged reservations to exist.
func (h *host) kill(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	dead := h.current
	dead.Close()
	dead.stop()
	sequences := map[string]int64{}
	for _, r := range h.memory.Snapshot(acme).Reservations {
		sequences[r.Key] = r.Sequence
	}
	for key, sequence := range h.acknowledged {
		if sequences[key] != sequence {
			t.Errorf("reservation %s with sequence %d was acknowledged; stored is %d", key, sequence, sequences[key])
		}
	}
	h.mu.Unlock()
	if h.roll(2) == 0 {
		dead.Deliver()
	} else {
		time.AfterFunc(10*time.Millisecond, dead.Deliver)
	}
}

func (h *host) process() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// live takes a claim through its life, or as far as ctx lets it.
func (h *host) live(ctx context.Context, t *testing.T, key string) {
	amount := ledger.Amount(1 + h.roll(3))
	sequence, admitted := h.reserve(ctx, key, amount)
	if !admitted {
		return
	}
	fate := h.roll(4)
	h.mu.Lock()
	delete(h.acknowledged, key)
	if fate > 0 {
		h.granted[key] = amount
		h.current.Settle(acme, key, sequence)
	}
	h.mu.Unlock()
	if fate < 3 { // the others stay
		h.release(ctx, t, key, sequence, amount)
	}
}

// reserve asks until there is an answer.
func (h *host) reserve(ctx context.Context, key string, amount ledger.Amount) (sequence int64, admitted bool) {
	for ctx.Err() == nil {
		decision, err := storagetest.Reserve(ctx, h.process(), acme, reservation(key, amount))
		if err != nil {
			<-time.After(time.Millisecond)
			continue
		}
		if decision.Code != ledger.Admitted {
			return 0, false
		}
		h.mu.Lock()
		h.acknowledged[key] = decision.Sequence
		h.mu.Unlock()
		<-time.After(time.Duration(h.roll(10)) * time.Millisecond)
		return decision.Sequence, true
	}
	return 0, false
}

// release gives a claim back and removes it, through as many processes as necessary.
func (h *host) release(ctx context.Context, t *testing.T, key string, sequence int64, amount ledger.Amount) {
	for ctx.Err() == nil {
		p := h.process()
		drifted, err := p.Release(ctx, acme, key, func(context.Context) (*ledgerstore.ClaimCharges, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			granted := h.granted[key] > 0
			return &ledgerstore.ClaimCharges{ClaimUID: key, Key: key, Sequence: sequence, Granted: granted, Charges: charges(amount)}, nil
		})
		if drifted {
			t.Errorf("the charge of %s is not in the ledger", key)
		}
		if err != nil {
			<-time.After(time.Millisecond)
			continue
		}
		h.mu.Lock()
		h.gone[key] = true
		delete(h.granted, key)
		h.mu.Unlock()
		p.Forget(acme, key)
		return
	}
}

// settleUp finishes all work in flight and compares the ledger with the remaining claims.
func (h *host) settleUp(t *testing.T) {
	t.Helper()
	h.kill(t)
	h.restart(t)
	h.process().Close()
	time.Sleep(time.Second) // of the test's own clock: no late write is left
	h.archive.setReliable()
	p := h.archive.record(start(t, h.memory, nil), crashJournalDelay)
	if err := p.Preload(t.Context(), listed(h.memory)); err != nil {
		t.Fatal(err)
	}
	released := map[string]bool{}
	for _, claim := range p.ReleasedLongAgo(-1)[acme] {
		released[claim] = true
		p.Forget(acme, claim)
	}
	for _, r := range p.Reservations() {
		if h.granted[r.Key] > 0 {
			p.Settle(acme, r.Key, r.Sequence)
		} else {
			cancel(t, p, r.Key)
		}
	}
	p.flush(t)
	want := summary{Limit: crashLimit}
	for key, amount := range h.granted {
		if !released[key] { // the answer to its release may have been lost with the last process
			want.Used, want.Claims = want.Used+amount, want.Claims+1
		}
	}
	expect(t, "every claim that stays is charged once", h.memory, want)
	for _, revision := range h.memory.Revisions(acme) {
		if s := summarize(t, revision.Snapshot); s.Used+s.Reserved > s.Limit {
			t.Errorf("revision %s: %d used and %d reserved of %d", revision.Version, s.Used, s.Reserved, s.Limit)
		}
	}
	time.Sleep(time.Minute) // of the test's own clock: the records are archived and dropped
	h.archive.check(false)
}
