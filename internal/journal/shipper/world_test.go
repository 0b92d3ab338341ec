package shipper

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/internal/ledger"
)

func consumer(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "platform", Kind: "Organization", Name: name}
}

// numbered returns changes with consecutive sequences.
func numbered(first, last int64) []ledger.Entry {
	var entries []ledger.Entry
	for sequence := first; sequence <= last; sequence++ {
		record := &ledger.Record{At: sequence, Kind: ledger.KindAdmitted, Key: "policy/uid"}
		entries = append(entries, ledger.Entry{
			Sequence: sequence, Record: record, Change: ledger.Charge{ResourceType: "pods", Amount: 1}, Used: ledger.Amount(sequence), Limit: 100,
		})
	}
	return entries
}

// ledgers are those of a store: they keep changes until the sink has them.
type ledgers struct {
	t       *testing.T
	shipper *Shipper
	sink    *sink

	mu      sync.Mutex
	kept    map[quotav1alpha1.ConsumerRef][]ledger.Entry
	offered map[quotav1alpha1.ConsumerRef]int64
	asked   map[quotav1alpha1.ConsumerRef]int
}

// add adds changes of a consumer and offers them. It reports whether the shipper took them.
func (b *ledgers) add(of string, entries []ledger.Entry) bool {
	c := consumer(of)
	b.mu.Lock()
	b.kept[c] = append(b.kept[c], entries...)
	b.mu.Unlock()
	return b.offer(c)
}

func (b *ledgers) offer(c quotav1alpha1.ConsumerRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var fresh []ledger.Entry
	for _, e := range b.kept[c] {
		if e.Sequence > b.offered[c] {
			fresh = append(fresh, e)
		}
	}
	if len(fresh) == 0 {
		return true
	}
	if !b.shipper.Take(c, nil, fresh) {
		return false
	}
	b.offered[c] = fresh[len(fresh)-1].Sequence
	return true
}

// readAgain offers all changes again, like a process after a reload of the ledger.
func (b *ledgers) readAgain(of string) {
	b.mu.Lock()
	b.offered[consumer(of)] = 0
	b.mu.Unlock()
	b.offer(consumer(of))
}

// RecordsStored implements [Store].
func (b *ledgers) RecordsStored(c quotav1alpha1.ConsumerRef, through int64) {
	if has := b.sink.stored(c); has < through {
		b.t.Errorf("the store was informed of entry %d of %s, the sink has %d", through, c.Name, has)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.kept[c]) > 0 && b.kept[c][0].Sequence <= through {
		b.kept[c] = b.kept[c][1:]
	}
}

// OfferRecords implements [Store].
func (b *ledgers) OfferRecords(c quotav1alpha1.ConsumerRef) {
	b.mu.Lock()
	b.asked[c]++
	b.mu.Unlock()
	b.offer(c)
}

// left returns the number of unstored changes.
func (b *ledgers) left() (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entries := range b.kept {
		count += len(entries)
	}
	return count
}

var errDisk = errors.New("no space left on device")

// fault is the fate of an append.
type fault int

const (
	none fault = iota
	// lost fails before anything is stored, and half after the first half.
	lost
	half
	// unanswered fails after all is stored.
	unanswered
	// stuck blocks until the context ends.
	stuck
)

// sink is a sink of files with faults.
type sink struct {
	files *files.Sink
	// fault returns the fault of the next append, by the number of earlier ones.
	fault func(attempt int) fault

	mu      sync.Mutex
	batches []int // sizes of the successful appends
	tried   int
	last    map[quotav1alpha1.ConsumerRef]int64
}

// Append implements [journal.Sink].
func (s *sink) Append(ctx context.Context, entries []journal.Entry) error {
	s.mu.Lock()
	attempt := s.tried
	s.tried++
	s.mu.Unlock()
	todo, err := entries, errDisk
	switch s.fault(attempt) {
	case lost:
		return err
	case stuck:
		<-ctx.Done()
		return ctx.Err()
	case half:
		todo = entries[:len(entries)/2]
	case none:
		err = nil
	case unanswered:
	}
	if err := s.files.Append(ctx, todo); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, len(entries))
	for i := range entries {
		s.last[entries[i].Consumer] = max(s.last[entries[i].Consumer], entries[i].Sequence)
	}
	return nil
}

// Probe implements [journal.Sink]. A probe has the fault of the next append.
func (s *sink) Probe(ctx context.Context) error {
	s.mu.Lock()
	attempt := s.tried
	s.mu.Unlock()
	if s.fault(attempt) == lost {
		return errDisk
	}
	return s.files.Probe(ctx)
}

// Close implements [journal.Sink].
func (s *sink) Close() error { return s.files.Close() }

func (s *sink) stored(c quotav1alpha1.ConsumerRef) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[c]
}

func (s *sink) appended() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.batches...)
}

func (s *sink) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried
}

// open returns a shipper between ledgers and a sink in a directory.
func open(t *testing.T, dir string, faults func(attempt int) fault) (*ledgers, *sink) {
	t.Helper()
	stored, err := files.NewSink(files.Options{
		Dir: dir, Replica: "a", FileBytesMax: 64 << 20, Retention: files.RetentionMin, BytesMax: 1 << 30, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{files: stored, fault: faults, last: map[quotav1alpha1.ConsumerRef]int64{}}
	b := &ledgers{
		t: t, sink: s,
		kept: map[quotav1alpha1.ConsumerRef][]ledger.Entry{}, offered: map[quotav1alpha1.ConsumerRef]int64{}, asked: map[quotav1alpha1.ConsumerRef]int{},
	}
	b.shipper = New(b, s, delay, logr.Discard())
	return b, s
}

// read returns the sequences in a directory by consumer.
func read(t *testing.T, dir string) map[string][]int64 {
	t.Helper()
	got := map[string][]int64{}
	for e, err := range files.Dir(dir).Entries(t.Context(), journal.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Consumer.Name] = append(got[e.Consumer.Name], e.Sequence)
	}
	return got
}

func sequences(first, last int64) []int64 {
	var all []int64
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}
