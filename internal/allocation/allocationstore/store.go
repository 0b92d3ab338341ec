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
	// refreshTimeout bounds a list of everything that is in the cluster.
	refreshTimeout = 10 * time.Second
	// staleMax is how long before a refusal the cluster was as it is taken to be, at most.
	staleMax = time.Second
	// readsMax is how often an allocation is read for a ledger that goes with a later version. Once is enough, but for
	// what happens in between.
	readsMax = 5
	// attemptsMax is how often in a row storage may fail before its batch does.
	attemptsMax = 3
	// pendingMax is how many raises of one allocation may be pending, and pendingMaxPerNamespace how many of one project,
	// so that nobody keeps the others waiting. It bounds the stored object.
	pendingMax             = 512
	pendingMaxPerNamespace = 64
	// pendingObserveMin is from how many on they are looked through with every write, wherever it is made.
	pendingObserveMin = 64

	// StatusDelay is how long the status of an allocation is not written again where that can wait, and statusWritesPerSecond how
	// many are written where it could, of all allocations.
	StatusDelay           = time.Second
	statusWritesPerSecond = 20
	// compactionDelay is how long a ledger keeps what need not be in it any more, at least, unless it is written anyway.
	compactionDelay = 10 * time.Second
	// PendingMargin is by how much longer than its request a raise counts as pending, for clocks of replicas that differ.
	PendingMargin = 15 * time.Second
	// PendingMax is how long a raise counts as pending at most.
	PendingMax = 150 * time.Second
)

var (
	// ErrGone is returned for an allocation that is not there any more.
	ErrGone = errors.New("the ResourceQuotaAllocation is not there any more")
	// ErrBusy is returned when so many raises are pending that no other is taken. Trying again later may succeed.
	ErrBusy = errors.New("too many changes of ResourceQuotas are in flight")
)

// QuotaCache is what there is in the cluster.
type QuotaCache interface {
	// WaitForSync waits until everything is known that there was at the start.
	WaitForSync(ctx context.Context) error
	// Refresh makes sure that everything is known that there was at some time.
	Refresh(ctx context.Context, since time.Time) error
	// Observe returns the projects of an allocation, and the ResourceQuotas that raises are of.
	Observe(selector labels.Selector, scopes allocation.Scopes, raises []allocation.QuotaChange) allocation.Observation
}

// Store is this process's access to the books of all allocations. It is safe for concurrent use.
type Store struct {
	ctx          context.Context
	storage      Storage
	quotas       QuotaCache
	metrics      *metrics
	statusWrites *rate.Limiter

	mu         sync.Mutex
	committers map[string]*committer
}

// New returns a store that works until ctx ends.
func New(ctx context.Context, storage Storage, quotas QuotaCache) *Store {
	return &Store{
		ctx: ctx, storage: storage, quotas: quotas, metrics: newMetrics(),
		statusWrites: rate.NewLimiter(statusWritesPerSecond, statusWritesPerSecond), committers: map[string]*committer{},
	}
}

// Outcome is what a raise came to. The zero value says that it may be made.
type Outcome struct {
	// Shortages are what it falls short of.
	Shortages []allocation.Shortage
	// Holders are, for each shortage, the projects that take something of it, those that take the most first.
	Holders [][]allocation.Holder
	// IsPending tells that the raise is pending now.
	IsPending bool
}

// Request is a change of a ResourceQuota that is to be admitted.
type Request struct {
	allocation.QuotaChange
	// Labels are those of its namespace, and Scopes those of the ResourceQuota.
	Labels labels.Set
	Scopes allocation.Scopes
	// IsDryRun asks what would be said, and books nothing.
	IsDryRun bool
}

// Admit books a raise in an allocation, or tells what it falls short of. A refusal is by books that were stored at
// some time during the call, and the cluster as it was a second before or later. An allocation that does not cap
// such a ResourceQuota any more admits everything, as does one that is gone. Errors are [ErrBusy], or say why nothing
// could be decided; then the raise may be pending all the same, until its time is over.
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

// isFull tells whether too many raises are pending for another one of a project.
func isFull(state *allocation.State, namespace string) bool {
	pending, ofNamespace := state.Pending(), 0
	for i := range pending {
		if pending[i].Namespace == namespace {
			ofNamespace++
		}
	}
	return len(pending) >= pendingMax || ofNamespace >= pendingMaxPerNamespace
}

// Cancel forgets the raise of that ID, which will not be made.
func (s *Store) Cancel(ctx context.Context, name, id string) error {
	return s.do(ctx, name, &operation{apply: func(state *allocation.State) groupcommit.Effect {
		if state.Cancel(id) {
			return groupcommit.Changed
		}
		return groupcommit.Nothing
	}})
}

// Reconcile brings the books of an allocation in line with the cluster, and its conditions, and calls f with them. Where
// nothing changed, nothing is written, and where only raises were admitted or made, the status not within [StatusDelay]
// of the last time: settle again after that. ready says whether the cap is enforced; it is nil where that is not known.
func (s *Store) Reconcile(ctx context.Context, name string, ready *Ready, f func(*allocation.State)) error {
	return s.do(ctx, name, &operation{
		reconciles: true,
		// From when it is enforced, everything is in the books: what was there before, and what was admitted since.
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

// Ready says whether an allocation is enforced as it was at a generation.
type Ready struct {
	UID        types.UID
	Generation int64
	Condition  metav1.Condition
}

// isAbout tells whether it is about what the allocation is now.
func (r *Ready) isAbout(state *allocation.State) bool {
	return r != nil && r.UID == state.Object().UID && r.Generation == state.Object().Generation
}

// NoteVersion notes that an allocation is stored with a resource version. Books in memory that are of an earlier one are read
// again.
func (s *Store) NoteVersion(name, resourceVersion string) {
	s.noteVersions(name, func(latest *versions) { latest.allocation = resourceVersion })
}

// NoteLedgerVersion is NoteVersion for the ledger of the allocation with that name and UID. It saves a write that would conflict. What
// another process admitted is shown, and forgotten if it is not made, once it is heard of.
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

// View calls f with the books of an allocation as this process knows them. f must not keep or change them. It may be
// called more than once; the last call counts, and only if View returns no error.
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
	// Operations that settle may write the status, and the others should not wait for that.
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

// Forget drops what is remembered of an allocation that was deleted. Operations under way are decided all the same.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.committers, name)
}
