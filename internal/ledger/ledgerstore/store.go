package ledgerstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// storageTimeout bounds one call to storage.
	storageTimeout = 3 * time.Second
	// ReleaseTimeout bounds the wait of a denial for expected releases.
	ReleaseTimeout = 3 * time.Second
	// answerMargin is the time before the caller's deadline for a denial to reach it.
	answerMargin = 300 * time.Millisecond
	// expectedReleaseMax bounds the life of an announced release: one without an end must not slow down denials for
	// good. deletionMax is that of an announced deletion, whose end nobody knows: as long as one denial waits.
	expectedReleaseMax = 30 * time.Second
	deletionMax        = ReleaseTimeout
	// waitingMax bounds the requests of one consumer that wait at the same time. Each holds a place in the API server,
	// and many denials would take the places of others. Beyond the bound, a denial does not wait.
	waitingMax = 64
	// idleMax is how long an unused ledger without reservations in flight stays in memory. It is unstoredIdleMax for one
	// that was never stored: requests may name any number of consumers that do not exist, and each is refused.
	idleMax         = 3 * time.Minute
	unstoredIdleMax = 10 * time.Second
	// dropInterval is the time between two looks for idle ledgers.
	dropInterval = 20 * time.Second
	// followInterval is the time between two checks whether to read a ledger after a write of another replica.
	followInterval = time.Second
	// stalledAfter is how long the oldest reservation of a ledger is in flight before other replicas than the preferred
	// one read the ledger. It is longer than a healthy replica takes to make a claim and to observe it.
	stalledAfter = 8 * time.Second
	// unknownOutcomesMax bounds the writes in a row with an unknown outcome before the batch fails.
	unknownOutcomesMax = 3

	// ReservationsMax bounds the reservations in flight of one consumer, and so the size of each write. Beyond it, a
	// request waits and then fails with [ErrBusy].
	ReservationsMax = 512
)

// ErrBusy means that the ledger of a consumer has no room for more reservations in flight, and none ended while the
// request waited. The bound is [ReservationsMax] or, with large reservations, [ledger.BytesMax]. The ledger has no
// reservation of the request; a later retry may succeed.
var ErrBusy = errors.New("too many requests for quota of this consumer are still in flight")

// ErrTooMuchHeld means that the request would fit, but not beside its [Spare].
var ErrTooMuchHeld = errors.New("the rest stays free for others until those requests take effect or fail")

// ErrSliced means that a request would fit, but another process holds the quota ahead of its own demand, and did not
// return it while the request waited. The process is busy, or has ended. The ledger has no reservation of the request;
// a later retry succeeds or gets a denial.
var ErrSliced = errors.New("another process of Bursar holds the quota in reserve; it returns soon, or within minutes if that process has ended")

// Change is the effect of a commit on the ledger of a consumer.
type Change struct {
	// CapacityGrew is true if a limit may have increased, or a charge went back. Denied claims may fit now.
	CapacityGrew bool
}

// Replicas knows the preferred replica of each ledger.
type Replicas interface {
	// IsPreferred reports whether this process is the preferred replica of a consumer. For other consumers a store does
	// not read the writes of other processes, see [Store.Observe].
	IsPreferred(consumer quotav1alpha1.ConsumerRef) bool
	// CanRead reports whether every replica reads the format of ledgers.
	CanRead(format int64) bool
}

// Clock returns the time.
type Clock interface{ Now() time.Time }

// Lead is the lead of this process.
type Lead interface {
	// Check returns an error unless this process certainly leads.
	Check() error
}

// Store is this process's access to the ledgers of all consumers. It is safe for concurrent use.
type Store struct {
	// Replicas, if set, are the replicas on the same ledgers. Set it before first use.
	Replicas Replicas

	// ReservationLifetime is the longest time until the object of a reservation appears, and so how long a failed
	// create holds its quota. Set it before first use, to at least the API server's --request-timeout plus
	// [ReservationMargin]: otherwise a slow create could exceed a limit. Default: 70 s.
	ReservationLifetime time.Duration
	// IsDurable makes the store record every reservation before it admits it, see [Store.Escrow]. Set it before first
	// use.
	IsDurable bool
	// Journal, if set, takes the records of the ledgers. Without it they record nothing. Set it before first use.
	Journal Journal
	// Deletions, if set, knows who deleted grants. Set it before first use.
	Deletions Deletions
	// Lead, if set, keeps this process from changes of grants while another one may lead: it may have given the rest of a
	// cap away. Set it before first use.
	Lead Lead
	// Inventory, if set, knows what existing objects demand. Set it before first use.
	Inventory Inventory
	// Types, if set, knows the counted resource types. Set it before first use.
	Types ledger.Types
	// Clock is the API server's clock, the one in creation timestamps. Set it before first use. Default: the clock of this
	// machine.
	Clock Clock

	holder          string // of the slices of this process
	share           share
	isClosing       atomic.Bool
	foreign         foreignSlices
	ctx             context.Context
	storage         Storage
	metrics         *metrics
	inflight        *inflight
	ended           endedRequests
	observed        observedLedgers
	unobserved      func() workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef] // made with the first use
	locks           objectLocks
	loadIDs         atomic.Uint64 // the latest one of a committer
	mu              sync.RWMutex
	isDropScheduled bool // a timer for dropIdle runs
	byRef           map[quotav1alpha1.ConsumerRef]*committer
	byName          map[string]*committer
	consumers       map[string]quotav1alpha1.ConsumerRef // of existing ledgers, by name; not of all
	listed          map[string]Version                   // the ledgers of Preload, until the call of WasListed
	listeners       []func(quotav1alpha1.ConsumerRef, Change)
	whenRecorded    []func(InFlight)
}

// New returns a store. It works until ctx ends.
func New(ctx context.Context, storage Storage) *Store {
	return &Store{
		ctx:        ctx,
		storage:    storage,
		metrics:    newMetrics(),
		inflight:   newInflight(),
		holder:     string(uuid.NewUUID()),
		share:      defaultShare,
		unobserved: sync.OnceValue(newUnobserved),
		Clock:      clock.RealClock{},

		ReservationLifetime: defaultReservationLifetime,

		byRef:     map[quotav1alpha1.ConsumerRef]*committer{},
		byName:    map[string]*committer{},
		consumers: map[string]quotav1alpha1.ConsumerRef{},
		listed:    map[string]Version{},
	}
}

// Subscribe registers f. The store calls it after every commit of this process, and after it read or observed changes
// of another process, in the order of events for each consumer. f must return quickly. Register it before first use.
func (s *Store) Subscribe(f func(quotav1alpha1.ConsumerRef, Change)) {
	s.listeners = append(s.listeners, f)
}

// SubscribeRecorded registers f. The store calls it with every reservation admitted from a slice, once it is in the
// ledger. f must return quickly. Register it before first use.
func (s *Store) SubscribeRecorded(f func(InFlight)) { s.whenRecorded = append(s.whenRecorded, f) }

// recorded informs of the record of a reservation admitted from a slice.
func (s *Store) recorded(consumer quotav1alpha1.ConsumerRef, key string) {
	r, isKnown := s.ReservationOf(consumer, key)
	for _, listener := range s.whenRecorded {
		if isKnown {
			listener(r)
		}
	}
}

func (s *Store) notify(consumer quotav1alpha1.ConsumerRef, change Change) {
	for _, listener := range s.listeners {
		listener(consumer, change)
	}
}

// committer returns the committer of a consumer. The store may drop it at any time, see [Store.with].
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

// with calls f with the committer of a consumer. If f returns false, after the end of the committer, it calls f with
// the next one.
func (s *Store) with(consumer quotav1alpha1.ConsumerRef, f func(*committer) bool) {
	for !f(s.committer(consumer)) {
	}
}

// do submits an operation and waits for its outcome.
func (s *Store) do(ctx context.Context, consumer quotav1alpha1.ConsumerRef, op *operation) error {
	if retryUntil, failsFast := ctx.Value(retryUntilKey{}).(time.Time); failsFast {
		op.deadline, op.failsFast = retryUntil, true
	} else if op.deadline.IsZero() {
		op.deadline = postponeDeadline(ctx)
	}
	op.tentative, _ = ctx.Value(tentativeKey{}).(string)
	for {
		c := s.committer(consumer)
		op.place.enter()
		err := c.group.Do(ctx, op.forGroup(c))
		c.waiting.leave(&op.place)
		switch {
		case errors.Is(err, groupcommit.ErrClosed): // the committer was dropped
		case err != nil:
			return err // op.err belongs to the group
		default:
			return op.err
		}
	}
}

// commitNow commits an operation at once, and retries until it took effect. It returns false after the end of the
// committer.
func (c *committer) commitNow(op *operation) bool { return c.group.Submit(op.forGroup(c)) }

// commitLater commits an operation with the next one, or soon. It returns false after the end of the committer.
func (c *committer) commitLater(op *operation) bool { return c.group.Defer(op.forGroup(c)) }

// postponeDeadline returns the deadline for postponing an operation.
func postponeDeadline(ctx context.Context) time.Time {
	until := time.Now().Add(ReleaseTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-answerMargin).Before(until) {
		return deadline.Add(-answerMargin)
	}
	return until
}

// doVerified performs an operation based on facts outside of the ledger, such as the existence of a claim. verify
// establishes the facts, and returns nil if there is nothing to do. doVerified calls it again whenever another process
// may have acted on the same facts before the operation took effect.
func (s *Store) doVerified(ctx context.Context, consumer quotav1alpha1.ConsumerRef, verify func(context.Context) (*operation, error)) error {
	for {
		loadID, err := s.loadIDOf(ctx, consumer)
		if err != nil {
			return err
		}
		op, err := verify(ctx)
		if op == nil || err != nil {
			return err
		}
		op.loadID, op.isVerified = loadID, true
		if err = s.do(ctx, consumer, op); err != errReverify { //nolint:errorlint // a sentinel of this package, never wrapped
			return err
		}
	}
}

// loadIDOf returns the load ID of the ledger in memory. If there is none it loads the ledger first: the first load
// would make earlier verified facts outdated.
func (s *Store) loadIDOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (uint64, error) {
	if loadID := s.committer(consumer).loadID.Load(); loadID > 0 {
		return loadID, nil
	}
	err := s.do(ctx, consumer, &operation{leavesDeferred: true, apply: nothing})
	return s.committer(consumer).loadID.Load(), err
}

// View calls f with the ledger of a consumer as of some instant during the call. f must not keep it, and discards its
// trials, see [ledger.Trial]. View may call f more than once; the last call counts, and only if View returns no error.
// If ctx ends early, f may still be running when View returns.
func (s *Store) View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	return s.do(ctx, consumer, &operation{leavesDeferred: true, apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
		f(l)
		return groupcommit.Unconfirmed
	}})
}
