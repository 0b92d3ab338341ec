// Package shipper moves the records of ledgers to a sink.
//
// A ledger keeps its records until the sink has them, so nothing here has to survive a crash. If the sink stands
// still, the shipper keeps a bounded number of entries, and then takes no more. The ledgers keep theirs, up to their
// own bound. Then they drop them, and record the gap in the next opening state. No request waits for a sink.
package shipper

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// waitingMax bounds the entries in wait for the sink.
	waitingMax = 50_000
	// batchMax bounds the entries of one append. The shipper appends so many without a delay.
	batchMax = 256
	// appendTimeout bounds one append.
	appendTimeout = 30 * time.Second
	// retryMin and retryMax bound the time between attempts of a failing append.
	retryMin = 200 * time.Millisecond
	retryMax = 15 * time.Second
)

// Store has the ledgers behind the entries.
type Store interface {
	// RecordsStored informs the store that the sink has the entries of a consumer up to a sequence.
	RecordsStored(consumer quotav1alpha1.ConsumerRef, through int64)
	// OfferRecords makes the store call Take for the declined entries of a consumer.
	OfferRecords(consumer quotav1alpha1.ConsumerRef)
}

// Shipper takes entries and appends them to a sink. It implements [ledgerstore.Journal].
type Shipper struct {
	// Delay is how long an entry may wait for others, to share their append.
	Delay time.Duration
	Log   logr.Logger

	store   Store
	sink    journal.Sink
	metrics *metrics
	wake    chan struct{} // has an element once there is something to do
	turn    chan struct{} // has an element while somebody appends

	mu       sync.Mutex
	waiting  []taken
	declined map[quotav1alpha1.ConsumerRef]bool // consumers with declined entries, for lack of room
	// failure is the error of the last attempt to write, or nil.
	failure error
	// latest are, for the consumers with waiting entries, the sequences of the latest of them.
	latest map[quotav1alpha1.ConsumerRef]int64
}

// taken is an entry on its way to the sink.
type taken struct {
	consumer quotav1alpha1.ConsumerRef
	opening  *ledger.Opening // or
	entry    ledger.Entry
	at       time.Time
}

func (t *taken) sequence() int64 {
	if t.opening != nil {
		return t.opening.Sequence
	}
	return t.entry.Sequence
}

// New returns a shipper from a store to a sink. Call Run to make it work.
func New(store Store, sink journal.Sink, delay time.Duration, log logr.Logger) *Shipper {
	s := &Shipper{
		Delay: delay, Log: log, store: store, sink: sink, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		declined: map[quotav1alpha1.ConsumerRef]bool{}, latest: map[quotav1alpha1.ConsumerRef]int64{},
	}
	s.metrics = newMetrics(s)
	return s
}

// Take takes entries of a consumer, unless there is no room. It skips the entries already waiting here.
func (s *Shipper) Take(consumer quotav1alpha1.ConsumerRef, opening *ledger.Opening, entries []ledger.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 && len(s.waiting)+len(entries) > waitingMax {
		s.declined[consumer] = true
		return false
	}
	before, now := len(s.waiting), time.Now()
	if opening != nil {
		s.addLocked(taken{consumer: consumer, opening: opening, at: now})
	}
	for i := range entries {
		s.addLocked(taken{consumer: consumer, entry: entries[i], at: now})
	}
	if before == 0 || before < batchMax && len(s.waiting) >= batchMax {
		s.notify()
	}
	return true
}

func (s *Shipper) addLocked(t taken) {
	if latest, isWaiting := s.latest[t.consumer]; isWaiting && t.sequence() <= latest {
		return
	}
	if t.opening != nil && t.opening.Lost > 0 {
		lost := *t.opening
		if latest, isWaiting := s.latest[t.consumer]; isWaiting { // the ledger dropped the entries waiting here, too
			lost.Lost = min(lost.Lost, lost.Sequence-1-latest)
		}
		t.opening = &lost
		s.metrics.lost.Add(float64(lost.Lost))
	}
	s.latest[t.consumer] = t.sequence()
	s.waiting = append(s.waiting, t)
}

func (s *Shipper) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run appends entries until ctx ends. First it probes the sink: if nothing changes for a while, a dead sink would
// otherwise look well until there is something to lose.
func (s *Shipper) Run(ctx context.Context) error {
	probe := time.NewTimer(0)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-probe.C:
			if !s.probe(ctx) {
				probe.Reset(retryMax)
			}
		case <-s.wake:
			s.gather(ctx)
			s.Flush(ctx)
		}
	}
}

// probe reports whether the sink can write.
func (s *Shipper) probe(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return false
	}
	trying, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	err := s.sink.Probe(trying)
	if ctx.Err() == nil {
		s.report(err)
	}
	return err == nil
}

// report keeps the result of an attempt to write, and logs the first failure and the end of failures.
func (s *Shipper) report(err error) {
	s.mu.Lock()
	before := s.failure
	s.failure = err
	waiting := len(s.waiting)
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.Log.Error(err, "the journal cannot store entries, will try again until its sink works", "waiting", waiting)
	case err == nil && before != nil:
		s.Log.Info("the sink of the journal works again")
	}
}

// Failure returns the error of the last attempt to write, or nil.
func (s *Shipper) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// gather waits for more entries, at most for the delay.
func (s *Shipper) gather(ctx context.Context) {
	timer := time.NewTimer(s.Delay)
	defer timer.Stop()
	for s.count() < batchMax {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-s.wake:
		}
	}
}

func (s *Shipper) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// Flush appends all waiting entries, batch by batch, or as much as it can until ctx ends.
func (s *Shipper) Flush(ctx context.Context) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	for {
		s.mu.Lock()
		batch := s.waiting[:min(len(s.waiting), batchMax)]
		s.mu.Unlock()
		if len(batch) == 0 || !s.append(ctx, batch) {
			return
		}
		s.stored(batch)
	}
}

// append appends a batch, and tries until it succeeds. It returns false if ctx ends first.
func (s *Shipper) append(ctx context.Context, batch []taken) bool {
	entries := make([]journal.Entry, 0, len(batch))
	for i := range batch {
		entries = append(entries, entryOf(&batch[i]))
	}
	backoff := wait.Backoff{Duration: retryMin, Factor: 2, Jitter: 0.1, Steps: 10, Cap: retryMax}
	err := backoff.DelayFunc().Until(ctx, true, false, func(ctx context.Context) (bool, error) {
		began := time.Now()
		trying, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		err := s.sink.Append(trying, entries)
		s.metrics.observe(began, len(entries), err)
		if err == nil || ctx.Err() == nil { // the end of this process is no fault of the sink
			s.report(err)
		}
		return err == nil, nil
	})
	return err == nil
}

// stored drops a batch after the sink has it, and asks for the declined entries.
func (s *Shipper) stored(batch []taken) {
	through := map[quotav1alpha1.ConsumerRef]int64{}
	for i := range batch {
		through[batch[i].consumer] = batch[i].sequence()
	}
	s.mu.Lock()
	s.waiting = append([]taken(nil), s.waiting[len(batch):]...) // so the memory of stored entries becomes free
	for consumer, sequence := range through {
		if s.latest[consumer] == sequence {
			delete(s.latest, consumer)
		}
	}
	declined := s.declined
	if len(s.waiting) < waitingMax/2 {
		s.declined = map[quotav1alpha1.ConsumerRef]bool{}
	} else {
		declined = nil
	}
	s.mu.Unlock()
	for consumer, sequence := range through {
		s.store.RecordsStored(consumer, sequence)
	}
	for consumer := range declined {
		s.store.OfferRecords(consumer)
	}
}

// Close closes the sink.
func (s *Shipper) Close() error {
	if err := s.sink.Close(); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}
