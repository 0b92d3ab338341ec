package ledgerstore

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/worker"
	"github.com/bursar/bursar/internal/ledger"
)

// Inventory knows what existing objects demand, as far as this process has seen them.
type Inventory interface {
	// Kinds returns the names of the kinds that this process counts and has listed.
	Kinds() []string
	// Consumers returns those of whom some object demands something.
	Consumers() []quotav1alpha1.ConsumerRef
	// View calls look with what the objects of a kind demand of a consumer, as of one moment. It reports false without a
	// call if the kind is not listed. look must return quickly.
	View(kind string, consumer quotav1alpha1.ConsumerRef, look func(ledger.Observation, ledger.Observer)) bool
	// IsListed reports whether a kind is one of these.
	IsListed(kind string) bool
	// HasSeen reports whether the effect of a request is visible, or its object was deleted.
	HasSeen(awaits *ledger.Awaited) bool
	// IsRetired reports whether nothing counts the objects of a kind any more, although observed demand rests on a basis.
	IsRetired(kind string, observed ledger.Basis) bool
	// CatchUp waits until the inventory shows everything before the call that happened to objects of some kinds.
	CatchUp(ctx context.Context, kinds []string) error
	// Refresh asks for a look at policies and namespaces, because another process has observed or reviewed by later ones.
	Refresh()
}

// HasSeen reports whether this process has seen the effect of a pending request, or the end of its object. Its ledger
// ends the request soon.
func (s *Store) HasSeen(pending InFlight) bool {
	return pending.Awaits != nil && s.Inventory != nil && s.Inventory.HasSeen(pending.Awaits)
}

// ObjectChanged informs the store that an object has a new version or is gone, and that this changes the demand for
// consumers. id is its UID or, for a policy's claim of record, the [ObjectKey] of the claim.
func (s *Store) ObjectChanged(id types.UID, consumers []quotav1alpha1.ConsumerRef) {
	for _, consumer := range consumers {
		s.stockChanged(consumer)
	}
	for _, pending := range s.ReservationsFor(cmp.Or(ObjectUID(string(id)), string(id))) {
		if pending.Awaits != nil {
			s.stockChanged(pending.Consumer)
		}
	}
}

// KindChanged informs the store that the demand by the objects of a kind may have changed for consumers, or rests on
// later policies or namespaces.
func (s *Store) KindChanged(kind string, consumers []quotav1alpha1.ConsumerRef) {
	for _, consumer := range consumers {
		if !s.isUpToDate(kind, consumer) {
			s.stockChanged(consumer)
		}
	}
	for _, pending := range s.Reservations() {
		if pending.Awaits != nil && pending.Awaits.Kind == kind {
			s.stockChanged(pending.Consumer)
		}
	}
}

// DeletionBegan informs the store that the deletion of an object begins that demands something of consumers.
func (s *Store) DeletionBegan(uid types.UID, consumers []quotav1alpha1.ConsumerRef) {
	for _, consumer := range consumers {
		s.ExpectDeletion(consumer, deletionOf(uid))
	}
}

// DeletionEnded informs the store that such an object is gone.
func (s *Store) DeletionEnded(uid types.UID, consumers []quotav1alpha1.ConsumerRef) {
	for _, consumer := range consumers {
		s.ReleaseDone(consumer, deletionOf(uid))
	}
}

func deletionOf(uid types.UID) string { return "deletion:" + string(uid) }

// ObserveAgain has the ledger of a consumer observe the inventory, because one of its requests should have ended.
func (s *Store) ObserveAgain(consumer quotav1alpha1.ConsumerRef) { s.unobserved().Add(consumer) }

// stockChanged has the ledger of a consumer observe the inventory soon. Of several replicas only the preferred one does
// so at once: the others look later whether it has, see [Store.SweepStock].
func (s *Store) stockChanged(consumer quotav1alpha1.ConsumerRef) {
	s.mu.RLock()
	c := s.byRef[consumer]
	s.mu.RUnlock()
	if c != nil {
		c.stock.changes.Add(1)
		c.resumeWaiting()
	}
	switch {
	case s.Replicas != nil && !s.Replicas.IsPreferred(consumer):
	case c != nil:
		s.with(consumer, (*committer).observeSoon)
	default:
		s.unobserved().Add(consumer)
	}
}

const (
	// observers is the number of ledgers that observe the inventory at the same time without another reason to be in
	// memory: a new policy may concern all of them.
	observers = 16
	// observeRetryMin and observeRetryMax bound the delay before the next attempt at a ledger that cannot be written.
	observeRetryMin, observeRetryMax = 100 * time.Millisecond, 10 * time.Second
)

func newUnobserved() workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](observeRetryMin, observeRetryMax))
}

// RunObservers has ledgers observe the inventory until ctx ends.
func (s *Store) RunObservers(ctx context.Context, log logr.Logger) {
	observe := func(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
		return s.do(ctx, consumer, newObservation())
	}
	worker.Run(ctx, s.unobserved(), observers, observe, func(consumer quotav1alpha1.ConsumerRef, err error) {
		log.Error(err, "a ledger does not show what exists, will try again", "consumer", describe(consumer))
	})
}

// EndPending informs the store that a request has ended, and that its effect never comes if nobody has seen it. The
// ledger ends the request with its next observation, which follows at once.
func (s *Store) EndPending(pending InFlight) {
	s.ended.add(pending)
	s.committer(pending.Consumer).stock.changes.Add(1)
	s.with(pending.Consumer, func(c *committer) bool { return c.commitNow(newObservation()) })
}

// endedRequests are the pending requests that have certainly ended, until the ledger has ended them, too. The zero
// value is empty.
type endedRequests struct {
	mu   sync.Mutex
	keys map[endedKey]struct{}
}

type endedKey struct {
	consumer quotav1alpha1.ConsumerRef
	key      string
	sequence int64
}

func (e *endedRequests) add(pending InFlight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = map[endedKey]struct{}{}
	}
	e.keys[endedKey{pending.Consumer, pending.Key, pending.Sequence}] = struct{}{}
}

func (e *endedRequests) has(consumer quotav1alpha1.ConsumerRef, r *ledger.Reservation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, has := e.keys[endedKey{consumer, r.Key, r.Sequence}]
	return has
}

// retain keeps only the requests that the ledger of a consumer still has.
func (e *endedRequests) retain(consumer quotav1alpha1.ConsumerRef, l *ledger.Ledger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.keys {
		if key.consumer != consumer {
			continue
		}
		if r, isThere := l.Reservation(key.key); !isThere || r.Sequence != key.sequence {
			delete(e.keys, key)
		}
	}
}
