package ledgerstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
		acknowledged: map[string]int64{},
	}
	h.archive = newArchive(t, h.memory, seed)
	start(t, h.memory, nil).limit(t, crashLimit) // as an earlier version, without a journal
	h.restart(t)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for worker := range crashWorker {
		workers.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				h.live(ctx, fmt.Sprintf("p/%d-%d", worker, life))
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

// live takes a reservation through its life, or as far as ctx lets it. One in four stays.
func (h *host) live(ctx context.Context, key string) {
	sequence, admitted := h.reserve(ctx, key, ledger.Amount(1+h.roll(3)))
	if !admitted || h.roll(4) == 0 {
		return
	}
	h.mu.Lock()
	delete(h.acknowledged, key)
	h.mu.Unlock()
	for ctx.Err() == nil && h.process().Cancel(ctx, acme, key, sequence) != nil {
		<-time.After(time.Millisecond)
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

// settleUp ends the reservations that nobody has acknowledged, and compares the ledger with the others.
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
	left := map[string]int64{}
	for _, r := range p.Reservations() {
		if h.acknowledged[r.Key] == 0 {
			cancel(t, p, r.Key)
			continue
		}
		left[r.Key] = r.Sequence
	}
	if diff := cmp.Diff(h.acknowledged, left); diff != "" {
		t.Errorf("the acknowledged reservations (-want +got):\n%s", diff)
	}
	for _, revision := range h.memory.Revisions(acme) {
		if s := summarize(t, revision.Snapshot); s.Used+s.Reserved > s.Limit {
			t.Errorf("revision %s: %d used and %d reserved of %d", revision.Version, s.Used, s.Reserved, s.Limit)
		}
	}
	time.Sleep(time.Minute) // of the test's own clock: the records are archived and dropped
	h.archive.check(false)
}
