package allocationstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/groupcommit"
)

const (
	// storageTimeout bounds one call to storage.
	storageTimeout = 3 * time.Second
	// refreshTimeout bounds a list of the namespaces and ResourceQuotas of the cluster.
	refreshTimeout = 10 * time.Second
	// staleMax is the largest age of the observation of the cluster behind a denial.
	staleMax = time.Second
	// readsMax bounds the reads of an allocation too old for its ledger. One is enough unless the allocation changes
	// again in between.
	readsMax = 5
	// attemptsMax is the number of failures of storage in a row until a batch fails.
	attemptsMax = 3
	// pendingMax bounds the pending changes of one allocation, and with them the stored object. pendingMaxPerNamespace
	// bounds those of one namespace: it cannot block the others.
	pendingMax             = 512
	pendingMaxPerNamespace = 64
	// pendingObserveMin is the smallest number of pending changes for every batch to compare them with the cluster.
	pendingObserveMin = 64

	// StatusDelay is the shortest time between two writes of an allocation's status that can wait.
	// statusWritesPerSecond bounds such writes over all allocations.
	StatusDelay           = time.Second
	statusWritesPerSecond = 20
	// compactionDelay is the time until the store writes a ledger only to drop changes that it no longer needs.
	compactionDelay = 10 * time.Second
	// PendingMargin is how long a change stays pending after its request: clocks of replicas differ.
	PendingMargin = 15 * time.Second
	// PendingMax is the longest time a change stays pending.
	PendingMax = 150 * time.Second
)

var (
	// ErrGone means that the allocation no longer exists.
	ErrGone = errors.New("the ResourceQuotaAllocation no longer exists")
	// ErrBusy means that too many changes are pending for another one. A later retry may succeed.
	ErrBusy = errors.New("too many changes of ResourceQuotas are in flight")
)

// QuotaCache observes the namespaces and ResourceQuotas of the cluster.
type QuotaCache interface {
	// WaitForSync waits for the first complete list.
	WaitForSync(ctx context.Context) error
	// Refresh makes sure that the cache is not older than since.
	Refresh(ctx context.Context, since time.Time) error
	// Observe returns the member namespaces of an allocation, and the ResourceQuotas of the given changes.
	Observe(selector labels.Selector, scopes allocation.Scopes, changes []allocation.QuotaChange) allocation.Observation
}

// Store is this process's access to the states of all allocations. It is safe for concurrent use.
type Store struct {
	ctx          context.Context
	storage      Storage
	quotas       QuotaCache
	metrics      *metrics
	statusWrites *rate.Limiter

	mu         sync.Mutex
	committers map[string]*committer
}

// New returns a store. It works until ctx ends.
func New(ctx context.Context, storage Storage, quotas QuotaCache) *Store {
	return &Store{
		ctx: ctx, storage: storage, quotas: quotas, metrics: newMetrics(),
		statusWrites: rate.NewLimiter(statusWritesPerSecond, statusWritesPerSecond), committers: map[string]*committer{},
	}
}

// Outcome is the decision on a change. The zero value admits it.
type Outcome struct {
	// Shortages are the resources that fell short.
	Shortages []allocation.Shortage
	// Holders are, for each shortage, the namespaces with some of the resource, the largest amount first.
	Holders [][]allocation.Holder
	// IsPending reports whether the change is pending now.
	IsPending bool
}

// Request asks to admit a change of a ResourceQuota.
type Request struct {
	allocation.QuotaChange
	// Labels are those of the namespace, and Scopes those of the ResourceQuota.
	Labels labels.Set
	Scopes allocation.Scopes
	// IsDryRun asks for the decision without recording the change.
	IsDryRun bool
}

// Admit records a change as pending in an allocation, or returns its shortages. A denial holds on the stored state of
// some instant during the call, and on an observation of the cluster at most a second older. Admit admits everything if
// the allocation no longer exists or no longer caps such a ResourceQuota. Errors are [ErrBusy], or the reason for the
// missing decision; then the change may be pending all the same, until its time is over.
func (s *Store) Admit(ctx context.Context, name string, request Request) (Outcome, error) {
	var outcome Outcome
	op := &operation{}
	op.apply = func(state *allocation.State) groupcommit.Effect {
		outcome = Outcome{}
		switch {
		case state.Scopes() != request.Scopes || !state.Selector().Matches(request.Labels):
			return groupcommit.Unconfirmed
		case request.IsDryRun:
			outcome.Shortages = state.Check(request.QuotaChange)
		case isFull(state, request.Namespace):
			op.isFull = true
			return groupcommit.Unconfirmed
		default:
			outcome.Shortages, outcome.IsPending = state.Admit(request.QuotaChange)
		}
		for _, shortage := range outcome.Shortages {
			outcome.Holders = append(outcome.Holders, state.Holders(shortage.Resource))
		}
		op.isDenied = len(outcome.Shortages) > 0
		if outcome.IsPending && !op.isDenied {
			return groupcommit.Changed
		}
		return groupcommit.Unconfirmed
	}
	err := s.do(ctx, name, op)
	switch {
	case errors.Is(err, ErrGone):
		return Outcome{}, nil
	case err != nil:
		return Outcome{}, err // op and outcome belong to the group
	case op.isFull:
		return Outcome{}, ErrBusy
	}
	return outcome, nil
}

// isFull reports whether too many changes are pending for another one in the namespace.
func isFull(state *allocation.State, namespace string) bool {
	pending, ofNamespace := state.Pending(), 0
	for i := range pending {
		if pending[i].Namespace == namespace {
			ofNamespace++
		}
	}
	return len(pending) >= pendingMax || ofNamespace >= pendingMaxPerNamespace
}

// Cancel drops the pending change with the ID: nobody will make it.
func (s *Store) Cancel(ctx context.Context, name, id string) error {
	return s.do(ctx, name, &operation{apply: func(state *allocation.State) groupcommit.Effect {
		if state.Cancel(id) {
			return groupcommit.Changed
		}
		return groupcommit.Nothing
	}})
}

// Reconcile brings the state of an allocation and its conditions in line with the cluster, and calls f with it. If
// nothing changed, it writes nothing. If there are only newly admitted or newly made changes, it writes the status no
// sooner than [StatusDelay] after the last time: call Reconcile again after the delay. ready reports whether the
// webhook enforces the cap; nil means unknown.
func (s *Store) Reconcile(ctx context.Context, name string, ready *Ready, f func(*allocation.State)) error {
	return s.do(ctx, name, &operation{
		reconciles: true,
		// From the moment of enforcement the state must have everything: earlier amounts, and changes admitted since.
		needsLive: func(state *allocation.State) bool {
			return ready.isAbout(state) && ready.Condition.Status == metav1.ConditionTrue && !state.IsReady()
		},
		apply: func(state *allocation.State) groupcommit.Effect {
			if ready.isAbout(state) && state.SetReady(ready.Condition) {
				return groupcommit.Changed
			}
			return groupcommit.Nothing
		},
		decided: f,
	})
}

// Ready is the Ready condition of an allocation at a generation.
type Ready struct {
	UID        types.UID
	Generation int64
	Condition  metav1.Condition
}

// isAbout reports whether the condition is about the present allocation.
func (r *Ready) isAbout(state *allocation.State) bool {
	return r != nil && r.UID == state.Object().UID && r.Generation == state.Object().Generation
}

// NoteVersion informs the store of the stored resource version of an allocation. The store reads an older state again.
func (s *Store) NoteVersion(name, resourceVersion string) {
	s.noteVersions(name, func(latest *versions) { latest.allocation = resourceVersion })
}

// NoteLedgerVersion is NoteVersion for the ledger of the allocation with the name and UID. It saves a conflicting
// write. It also makes the store publish changes admitted by another process, and drop them if nobody makes them.
func (s *Store) NoteLedgerVersion(name string, uid types.UID, resourceVersion string) {
	s.noteVersions(name, func(latest *versions) { latest.ledger, latest.ledgerOf = resourceVersion, uid })
}

func (s *Store) noteVersions(name string, f func(*versions)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.committers[name]; c != nil {
		f(&c.latest)
	}
}

// View calls f with the state of an allocation as this process knows it. f must not keep or change it. View may call f
// more than once; the last call counts, and only if View returns no error.
func (s *Store) View(ctx context.Context, name string, f func(*allocation.State)) error {
	return s.do(ctx, name, &operation{apply: func(state *allocation.State) groupcommit.Effect {
		f(state)
		return groupcommit.Nothing
	}})
}

// do submits an operation and waits for its outcome.
func (s *Store) do(ctx context.Context, name string, op *operation) error {
	if err := s.quotas.WaitForSync(ctx); err != nil {
		return err
	}
	// Reconciling operations may write the status. The others should not wait for this write.
	return s.committer(name).group.Do(ctx, &groupcommit.Operation[*allocation.State]{Decision: op, Apart: op.reconciles})
}

// committer returns the committer of an allocation.
func (s *Store) committer(name string) *committer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.committers[name]
	if c == nil {
		c = newCommitter(s, name)
		s.committers[name] = c
	}
	return c
}

// Forget drops the memory of a deleted allocation. The store decides operations in progress on the stored state: the
// allocation may exist again.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	c := s.committers[name]
	s.mu.Unlock()
	if c != nil {
		s.forget(c)
	}
}

// forget drops a committer.
func (s *Store) forget(c *committer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.latest.isDeleted = true
	if s.committers[c.name] == c {
		delete(s.committers, c.name)
	}
}
