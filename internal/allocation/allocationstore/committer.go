package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/groupcommit"
)

// operation is one change to, or question about, the state of an allocation.
type operation struct {
	// apply runs again after each new read of the state; the last run counts.
	apply func(*allocation.State) groupcommit.Effect
	// decided, if set, gets the state of the decision before the caller hears of it. This state may have changes that
	// need no write at once.
	decided func(*allocation.State)
	// reconciles asks for a state in line with the observed cluster. needsLive, if set, reports whether the state must
	// be in line with the cluster itself.
	reconciles bool
	needsLive  func(*allocation.State) bool

	// apply sets isDenied and isFull: it denies a request for a shortage, or because too much is pending. Either is
	// certain only with a state in line with the observed cluster.
	isDenied, isFull bool
	// state is the state of the decision.
	state *allocation.State
}

// Apply implements [groupcommit.Decision].
func (o *operation) Apply(state *allocation.State) groupcommit.Effect {
	o.isDenied, o.isFull, o.state = false, false, state
	return o.apply(state)
}

// Committed implements [groupcommit.Decision].
func (o *operation) Committed(groupcommit.Effect) {
	if o.decided != nil {
		o.decided(o.state)
	}
}

// consistency is how current the state for a batch must be.
type consistency int

const (
	// cached: as in memory. Writing the ledger proves the pending changes.
	cached consistency = iota
	// observed: also in line with the observed cluster.
	observed
	// confirmed: also read since the group took the batch. A denial needs it.
	confirmed
)

// committer has the state of one allocation in memory. All operations of this process on it go through its group.
type committer struct {
	store *Store
	name  string
	group *groupcommit.Group[*allocation.State]
	// latest are the latest known stored versions. The store's lock guards them. All else belongs to the group's
	// goroutine.
	latest           versions
	state            *allocation.State // nil when unknown
	ledgerVersion    string            // the resource version of the ledger in state
	isFresh          bool              // a read of the whole state happened since attempt 0 of the batch
	statusWritten    time.Time         // the time of the latest write of the status
	compactableSince time.Time         // since when the ledger has changes that it no longer needs
	batch            []*operation
	consistency      consistency // of the batch
	failures         int         // of storage for the batch, without conflicts
}

// versions are resource versions of an allocation and of its ledger, and the UID of the ledger's allocation.
type versions struct {
	allocation, ledger string
	ledgerOf           types.UID
	isDeleted          bool // Forget was called for it, and it may exist again
}

func newCommitter(s *Store, name string) *committer {
	c := &committer{store: s, name: name}
	c.group = groupcommit.New(s.ctx, "the ledger of ResourceQuotaAllocation "+name, c)
	return c
}

// Load implements [groupcommit.Copy].
func (c *committer) Load(batch []*groupcommit.Operation[*allocation.State], attempt int) (*allocation.State, error) {
	clear(c.batch)
	c.batch = c.batch[:0]
	for _, op := range batch {
		c.batch = append(c.batch, op.Decision.(*operation))
	}
	if attempt == 0 {
		c.isFresh, c.failures, c.consistency = false, 0, cached
		if c.isReconciling() {
			c.consistency = observed
		}
	}
	if err := c.load(); err != nil {
		return nil, c.retry(err)
	}
	state, err := c.observe()
	return state, c.retry(err)
}

// isReconciling reports whether the batch consists of reconciling operations. No batch mixes them with others.
func (c *committer) isReconciling() bool { return c.batch[0].reconciles }

// Commit implements [groupcommit.Copy].
func (c *committer) Commit(state *allocation.State, effects []groupcommit.Effect) error {
	if c.consistency != confirmed && slices.ContainsFunc(c.batch, func(op *operation) bool { return op.isDenied || op.isFull }) {
		c.state, c.consistency = nil, confirmed // the state in memory has unwritten changes
		return groupcommit.ErrAgain
	}
	var status, ledger bool
	switch {
	case slices.Contains(effects, groupcommit.Changed) || state.IsRoomChanged():
		status, ledger = state.IsStatusChanged(), state.IsLedgerChanged() || state.IsRoomChanged()
	case c.isReconciling():
		status, ledger = c.isStatusDue(state), c.isCompactionDue(state)
	}
	if err := c.write(state, status, ledger); err != nil {
		return c.retry(err)
	}
	if slices.Contains(effects, groupcommit.Unconfirmed) && !c.isFresh {
		return c.retry(c.confirm())
	}
	return nil
}

// Finished implements [groupcommit.Copy].
func (c *committer) Finished() {}

// retry drops the state after an error of storage. It returns ErrAgain unless another attempt is of no use.
func (c *committer) retry(err error) error {
	if err == nil || errors.Is(err, groupcommit.ErrAgain) {
		return err
	}
	c.state = nil
	if isConflict(err) {
		return groupcommit.ErrAgain // another process wrote first
	}
	if c.failures++; c.failures >= attemptsMax || isFinal(err) {
		if errors.Is(err, ErrGone) {
			c.store.forget(c) // nothing of it is worth keeping
		}
		return err
	}
	return groupcommit.ErrAgain
}

// isFinal reports whether another attempt is of no use.
func isFinal(err error) bool {
	return errors.Is(err, ErrGone) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// isStatusDue reports whether to write the status although no decision depends on it: there are newly admitted changes,
// or requesters made admitted ones.
func (c *committer) isStatusDue(state *allocation.State) bool {
	return !state.IsStatusCurrent() && time.Since(c.statusWritten) >= StatusDelay && c.store.statusWrites.Allow()
}

// isCompactionDue reports whether to write the ledger although no decision depends on it. The status must not have
// changes then: the write of the ledger always comes after it.
func (c *committer) isCompactionDue(state *allocation.State) bool {
	switch {
	case !state.IsLedgerChanged() || state.IsStatusChanged():
		c.compactableSince = time.Time{}
	case c.compactableSince.IsZero():
		c.compactableSince = time.Now()
	}
	return !c.compactableSince.IsZero() && time.Since(c.compactableSince) >= compactionDelay
}

// observe returns the state in line with the cluster if the batch asks for it or it is due, and otherwise the state in
// memory.
//
// observe compares a state never in line with the present spec with a list of the API server newer than the state. No
// ledger has the amounts given before, and no watch can prove that it has seen them all.
func (c *committer) observe() (*allocation.State, error) {
	isLive := !c.state.IsObserved() || slices.ContainsFunc(c.batch, func(op *operation) bool { return op.needsLive != nil && op.needsLive(c.state) })
	if c.consistency == cached && !isLive && len(c.state.Pending()) < pendingObserveMin {
		return c.state, nil
	}
	if c.consistency == confirmed && !isLive {
		if err := c.refresh(time.Now().Add(-staleMax)); err != nil {
			return nil, err
		}
	}
	var state *allocation.State
	err := allocation.ErrBehind
	if !isLive {
		state, err = c.state.Observe(c.observation())
	}
	if errors.Is(err, allocation.ErrBehind) {
		if err = c.refresh(time.Now()); err != nil {
			return nil, err
		}
		state, err = c.state.ObserveLive(c.observation())
	}
	if err != nil {
		return nil, fmt.Errorf("bring the state of ResourceQuotaAllocation %s in line with the ResourceQuotas: %w", c.name, err)
	}
	return state, nil
}

// observation returns the observed member namespaces of the allocation.
func (c *committer) observation() allocation.Observation {
	return c.store.quotas.Observe(c.state.Selector(), c.state.Scopes(), c.state.Pending())
}

// refresh makes sure that the observation is not older than since.
func (c *committer) refresh(since time.Time) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, refreshTimeout)
	defer cancel()
	return c.store.quotas.Refresh(ctx, since)
}
