package ledgerstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// storageTimeout bounds one call to storage.
	storageTimeout = 3 * time.Second
	// releaseTimeout is how long a refusal waits for releases that are on their way.
	releaseTimeout = 3 * time.Second
	// answerMargin is kept back from what a caller has, so that a refusal still reaches it as one.
	answerMargin = 300 * time.Millisecond
	// expectedReleaseMax is how long an announced release counts as on its way: one that nobody withdrew
	// must not slow down refusals for good.
	expectedReleaseMax = 30 * time.Second
	// idleMax is for how long a ledger is kept in memory that nobody asks for and that has nothing in flight.
	idleMax = 3 * time.Minute
	// observeDelay is how long the writes of another process, which keeps the books, may go unnoticed.
	observeDelay = 500 * time.Millisecond
	// unknownOutcomesMax is how many writes in a row may end with an unknown outcome before the batch fails.
	unknownOutcomesMax = 3

	// ReservationsMax is how many reservations of one consumer may be in flight. It bounds what
	// each commit writes; beyond it, reserving waits and then fails with [ErrBusy].
	ReservationsMax = 512
)

// ErrBusy is returned when a consumer has as many reservations in flight as its ledger can hold,
// [ReservationsMax] or, within [ledger.BytesMax], fewer large ones, and none was settled while the
// request waited. Nothing was reserved; trying again later may succeed.
var ErrBusy = errors.New("too many creates of this consumer are still in flight")

// Change says what a commit did to the books of a consumer.
type Change struct {
	// CapacityGrew is set when a limit may have been raised or a charge given back, so that
	// claims which did not fit may fit now.
	CapacityGrew bool
}

// Recovery finds out what a consumer uses that has no ledger.
type Recovery interface {
	// Usage computes the usage of a consumer from its granted claims.
	Usage(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]ledger.Usage, error)
}

// Replicas knows which of several replicas writes most to a ledger.
type Replicas interface {
	// IsPreferred reports whether most writes to the ledger of a consumer come from this process. A store reads the writes of
	// others to other ledgers a moment later, all at once.
	IsPreferred(consumer quotav1alpha1.ConsumerRef) bool
}

// Store is this process's access to the books of all consumers. It is safe for concurrent use.
type Store struct {
	// Recovery, if set, protects ledgers against being deleted. It is set before first use.
	Recovery Recovery
	// Replicas, if set, are those that share the ledgers. It is set before first use.
	Replicas Replicas

	// ReservationLifetime is how long the object of a reservation may take to appear, and so how long a failed create holds
	// its quota. It is set before first use, and is not less than the API server's bound for a request
	// (--request-timeout) with [ReservationMargin]: otherwise a slow create could exceed a limit. Default: 70 s.
	ReservationLifetime time.Duration

	ctx             context.Context
	storage         Storage
	metrics         *metrics
	inflight        *inflight
	released        *released
	locks           objectLocks
	loadIDs         atomic.Uint64 // the latest that a committer was given
	mu              sync.RWMutex
	isDropScheduled bool // a timer for dropIdle runs
	byRef           map[quotav1alpha1.ConsumerRef]*committer
	byName          map[string]*committer
	listed          map[string]Version // the ledgers that Warm was given, until WasListed is asked
	listeners       []func(quotav1alpha1.ConsumerRef, Change)
}

// New returns a store that works until ctx ends.
func New(ctx context.Context, storage Storage) *Store {
	return &Store{
		ctx:      ctx,
		storage:  storage,
		metrics:  newMetrics(),
		inflight: newInflight(),
		released: newReleased(),

		ReservationLifetime: defaultReservationLifetime,

		byRef:  map[quotav1alpha1.ConsumerRef]*committer{},
		byName: map[string]*committer{},
		listed: map[string]Version{},
	}
}

// Subscribe registers f to be called after every commit of this process, and whenever it has read what
// another one wrote, in that order for each consumer. It must return quickly, and must be registered before first use.
func (s *Store) Subscribe(f func(quotav1alpha1.ConsumerRef, Change)) {
	s.listeners = append(s.listeners, f)
}

func (s *Store) notify(consumer quotav1alpha1.ConsumerRef, change Change) {
	for _, listener := range s.listeners {
		listener(consumer, change)
	}
}

// committer returns the one committer of a consumer. It may be dropped at any time, see [Store.submit].
func (s *Store) committer(consumer quotav1alpha1.ConsumerRef) *committer {
	s.mu.RLock()
	c := s.byRef[consumer]
	s.mu.RUnlock()
	if c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c = s.byRef[consumer]; c == nil {
		c = newCommitter(s, consumer)
		s.byRef[consumer], s.byName[naming.Ledger(consumer)] = c, c
		s.scheduleDropLocked()
	}
	return c
}

// with calls f with the committer of a consumer until it is one that was not dropped, for which f returns true.
func (s *Store) with(consumer quotav1alpha1.ConsumerRef, f func(*committer) bool) {
	for !f(s.committer(consumer)) {
	}
}

// do submits an operation and waits for its outcome.
func (s *Store) do(ctx context.Context, consumer quotav1alpha1.ConsumerRef, op *operation) error {
	if op.deadline, op.failsFast = ctx.Value(retryUntilKey{}).(time.Time); !op.failsFast {
		op.deadline = postponeDeadline(ctx)
	}
	op.tentative, _ = ctx.Value(tentativeKey{}).(string)
	for {
		c := s.committer(consumer)
		err := c.group.Do(ctx, op.submitted(c))
		switch {
		case errors.Is(err, groupcommit.ErrClosed): // the committer was dropped
		case err != nil:
			return err // op.err belongs to the group
		default:
			return op.err
		}
	}
}

// submit has an operation committed at once, and again until it took effect. It reports false if the committer was dropped.
func (c *committer) commitNow(op *operation) bool { return c.group.Submit(op.submitted(c)) }

// deferred has an operation committed with the next one, or soon. It reports false if the committer was dropped.
func (c *committer) commitLater(op *operation) bool { return c.group.Defer(op.submitted(c)) }

// postponeDeadline is until when an operation may be postponed.
func postponeDeadline(ctx context.Context) time.Time {
	until := time.Now().Add(releaseTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-answerMargin).Before(until) {
		return deadline.Add(-answerMargin)
	}
	return until
}

// doVerified queues an operation that depends on facts outside of the books, such as that a
// claim still exists. verify establishes them, and returns nil if there is nothing to do; it runs again
// whenever another process may have acted on the same facts before the operation took effect.
func (s *Store) doVerified(ctx context.Context, consumer quotav1alpha1.ConsumerRef, verify func(context.Context) (*operation, error)) error {
	for {
		epoch, err := s.loadIDOf(ctx, consumer)
		if err != nil {
			return err
		}
		op, err := verify(ctx)
		if op == nil || err != nil {
			return err
		}
		op.loadID, op.isVerified = epoch, true
		if err = s.do(ctx, consumer, op); err != errReverify { //nolint:errorlint // a sentinel of this package, never wrapped
			return err
		}
	}
}

// loadIDOf returns which reading of the books of a consumer is in memory. Without one it reads them, because facts that are
// verified before the first reading would have to be verified again.
func (s *Store) loadIDOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (uint64, error) {
	if epoch := s.committer(consumer).loadID.Load(); epoch > 0 {
		return epoch, nil
	}
	err := s.do(ctx, consumer, &operation{apply: func(*ledger.Ledger, bool) groupcommit.Effect { return groupcommit.Nothing }})
	return s.committer(consumer).loadID.Load(), err
}

// View calls f with the books of a consumer as they were at some instant during the call. f
// must not keep or change them. It may be called more than once; the last call counts, and only
// if View returns no error. If ctx ends early, f may still be running when View returns.
func (s *Store) View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	return s.do(ctx, consumer, &operation{apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
		f(l)
		return groupcommit.Unconfirmed
	}})
}
