package ledgerstore_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// archive has the records about acme of all processes on one storage.
type archive struct {
	t      testing.TB
	memory *storagetest.Memory

	mu      sync.Mutex
	random  *rand.Rand
	entries map[int64]journal.Entry
	// isReliable ends all faults.
	isReliable bool
	// isStuck makes all appends fail.
	isStuck bool
	// repeated counts the repeatedly appended entries.
	repeated int
}

func newArchive(t testing.TB, memory *storagetest.Memory, seed uint64) *archive {
	return &archive{t: t, memory: memory, random: rand.New(rand.NewPCG(seed, 2)), entries: map[int64]journal.Entry{}}
}

// record gives a process a journal with the same lifetime.
func (a *archive) record(p *process, delay time.Duration) *process {
	ctx, cancel := context.WithCancel(a.t.Context())
	stop := p.stop
	p.stop = func() {
		stop()
		cancel()
	}
	shipped := shipper.New(p.Store, archiveSink{a}, delay, logr.Discard())
	p.Journal = &hesitant{archive: a, Shipper: shipped, store: p.Store, ctx: ctx}
	go func() { _ = shipped.Run(ctx) }()
	return p
}

func (a *archive) roll(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isReliable {
		return n - 1
	}
	return a.random.IntN(n)
}

// hesitant is a journal without room now and then.
type hesitant struct {
	*shipper.Shipper
	archive *archive
	store   *ledgerstore.Store
	ctx     context.Context //nolint:containedctx // that of the process
}

// Take implements [ledgerstore.Journal]. It requires the given entries to be in storage.
func (h *hesitant) Take(consumer quotav1alpha1.ConsumerRef, opening *ledger.Opening, entries []ledger.Entry) bool {
	last := int64(0)
	if opening != nil {
		last = opening.Sequence
	}
	if n := len(entries); n > 0 {
		last = entries[n-1].Sequence
	}
	if has := lastStored(h.archive.memory.Snapshot(consumer).Journal); has < last {
		h.archive.t.Errorf("entry %d was offered, the stored ledger has %d", last, has)
	}
	if h.archive.roll(8) > 0 {
		return h.Shipper.Take(consumer, opening, entries)
	}
	time.AfterFunc(time.Duration(h.archive.roll(300))*time.Millisecond, func() {
		if h.ctx.Err() == nil {
			h.store.OfferRecords(consumer)
		}
	})
	return false
}

// lastStored returns the sequence of the latest change of a ledger.
func lastStored(stored *ledger.Journal) int64 {
	if stored == nil {
		return 0
	}
	last := stored.First - 1
	for i := range stored.Records {
		last += int64(len(stored.Records[i].Changes))
	}
	return last
}

// archiveSink appends to the archive, with faults.
type archiveSink struct{ *archive }

var errArchive = errors.New("the archive is closed")

// Append implements [journal.Sink].
func (s archiveSink) Append(ctx context.Context, entries []journal.Entry) error {
	select {
	case <-time.After(time.Duration(s.roll(5000)) * time.Microsecond):
	case <-ctx.Done(): // a killed process may have written
	}
	kind := s.roll(12)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isStuck || kind == 0:
		return errArchive
	case kind == 1:
		s.add(entries[:len(entries)/2])
		return errArchive
	case kind == 2:
		s.add(entries)
		return errArchive
	}
	s.add(entries)
	return ctx.Err()
}

// Probe implements [journal.Sink].
func (archiveSink) Probe(context.Context) error { return nil }

// Close implements [journal.Sink].
func (archiveSink) Close() error { return nil }

func (s archiveSink) add(entries []journal.Entry) {
	for _, e := range entries {
		before, isKnown := s.entries[e.Sequence]
		if isKnown {
			s.repeated++
		}
		if diff := cmp.Diff(before, e); isKnown && diff != "" {
			s.t.Errorf("entry %d is given twice (-first +second):\n%s", e.Sequence, diff)
		}
		s.entries[e.Sequence] = e
	}
}

// setReliable ends the faults of the archive.
func (a *archive) setReliable() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isReliable, a.isStuck = true, false
}

// sorted returns the entries by their sequence.
func (a *archive) sorted() []journal.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	sequences := slices.Sorted(maps.Keys(a.entries))
	entries := make([]journal.Entry, 0, len(sequences))
	for _, sequence := range sequences {
		entries = append(entries, a.entries[sequence])
	}
	return entries
}

// check replays the archive, and compares it with every stored state of the ledger with a journal. If changes may be
// lost, it compares only the last state.
func (a *archive) check(mayLose bool) {
	a.t.Helper()
	replay, entries := journal.Replay{}, a.sorted()
	revisions := slices.DeleteFunc(a.memory.Revisions(acme), func(r storagetest.Revision) bool { return r.Snapshot.Journal == nil })
	if len(revisions) == 0 {
		a.t.Fatal("no ledger has a journal")
	}
	if mayLose {
		revisions = revisions[len(revisions)-1:]
	}
	for _, revision := range revisions {
		last := lastStored(revision.Snapshot.Journal)
		for len(entries) > 0 && entries[0].Sequence <= last {
			if err := replay.Add(entries[0]); err != nil {
				a.t.Fatal(err)
			}
			entries = entries[1:]
		}
		if has := replay.Sequence(acme); has != last {
			a.t.Fatalf("revision %s has changes through %d, the archive has %d", revision.Version, last, has)
		}
		if diff := cmp.Diff(stateOf(a.t, revision.Snapshot), replay.State(acme)); diff != "" {
			a.t.Fatalf("replaying through entry %d does not give revision %s (-ledger +replay):\n%s", last, revision.Version, diff)
		}
	}
	if len(entries) > 0 {
		a.t.Errorf("%d entries come after the last one of the ledger: %+v", len(entries), entries[0])
	}
	if stored := revisions[len(revisions)-1].Snapshot.Journal; len(stored.Records) > 0 || stored.OpenedAt != 0 {
		a.t.Errorf("the ledger keeps %d records that are archived, opened at %d", len(stored.Records), stored.OpenedAt)
	}
}

// stateOf returns the limits and the demand of a stored ledger.
func stateOf(t testing.TB, stored ledger.Snapshot) journal.Opening {
	t.Helper()
	l, err := ledger.Restore(stored)
	if err != nil {
		t.Fatalf("stored ledger: %v", err)
	}
	var state journal.Opening
	for g := range l.Grants() {
		for _, a := range g.Allowances {
			grant := strings.TrimPrefix(g.Namespace+"/"+g.Name, "/")
			state.Limits = append(state.Limits, journal.Limit{ResourceType: a.ResourceType, Grant: grant, Amount: int64(a.Amount)})
		}
	}
	for _, resourceType := range l.ResourceTypes() {
		for _, b := range l.Balances(resourceType) {
			if amount := int64(b.Used + b.Reserved); amount > 0 {
				state.Balances = append(state.Balances, journal.Balance{ResourceType: resourceType, Dimensions: b.Dimensions.Map(), Amount: amount})
			}
		}
	}
	state.Sort()
	return state
}
