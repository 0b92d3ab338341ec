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

// operation is one change to, or question about, the books of an allocation.
type operation struct {
	// apply runs again when the books had to be read again; the last run counts.
	apply func(*allocation.State) groupcommit.Effect
	// decided, if set, is called with the books by which the operation was, before the caller is told. What of them need
	// not be stored at once may not be.
	decided func(*allocation.State)
	// settles asks for books that are in line with the cluster as it is seen, and needsLive, if set, whether they have
	// to be with the cluster as it is.
	reconciles bool
	needsLive  func(*allocation.State) bool

	// isDenied and isFull are set by apply. The caller is refused, for a shortage or since too much is pending: that is true
	// only of books in line with the cluster as it is seen.
	isDenied, isFull bool
	// books are those that the operation was decided on.
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

// consistency is how sure of the books a batch has to be decided.
type consistency int

const (
	// usual: as they are in memory. A write of the ledger proves what is pending.
	cached consistency = iota
	// settled: in line with the cluster as it is seen, too.
	observed
	// certain: and read since the batch was taken. Somebody may be refused by them.
	confirmed
)

// committer has the books of one allocation in memory. All that this process does to them goes through its group.
type committer struct {
	store *Store
	name  string
	group *groupcommit.Group[*allocation.State]
	// heard are the latest versions that were heard of. They belong to the store's lock, the rest to the group's goroutine.
	latest           versions
	state            *allocation.State // nil when unknown
	ledgerVersion    string            // the resource version of the ledger that the books are of
	isFresh          bool              // all of the books was read since attempt 0 of the batch
	statusWritten    time.Time         // when the status was written last
	compactableSince time.Time         // since when the ledger has raises that need not be in it any more
	batch            []*operation
	consistency      consistency // of the batch
	failures         int         // of storage for the batch, other than conflicts
}

// versions are resource versions of an allocation and of the ledger of the one with a UID.
type versions struct {
	allocation, ledger string
	ledgerOf           types.UID
}

func newCommitter(s *Store, name string) *committer {
	c := &committer{store: s, name: name}
	c.group = groupcommit.New(s.ctx, "the ledger of ResourceQuotaAllocation "+name, c)
	return c
}

// Load implements [groupcommit.Copy].
func (c *committer) Load(batch []*groupcommit.Operation[*allocation.State], attempt int) (*allocation.State, error) {
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

// isReconciling reports whether the batch is one of those that settle. All of it is, or nothing.
func (c *committer) isReconciling() bool { return c.batch[0].reconciles }

// Commit implements [groupcommit.Copy].
func (c *committer) Commit(state *allocation.State, effects []groupcommit.Effect) error {
	if c.consistency != confirmed && slices.ContainsFunc(c.batch, func(op *operation) bool { return op.isDenied || op.isFull }) {
		c.state, c.consistency = nil, confirmed // what is in memory says more than was written
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

// Settled implements [groupcommit.Copy].
func (c *committer) Settled() {}

// retry drops the books on an error of storage, and has the batch decided again unless that is of no use.
func (c *committer) retry(err error) error {
	if err == nil || errors.Is(err, groupcommit.ErrAgain) {
		return err
	}
	c.state = nil
	if isConflict(err) {
		return groupcommit.ErrAgain // another process got on
	}
	if c.failures++; c.failures >= attemptsMax || isFinal(err) {
		if errors.Is(err, ErrGone) {
			c.store.Forget(c.name) // nothing is known of it that is worth keeping
		}
		return err
	}
	return groupcommit.ErrAgain
}

// isFinal reports whether it is of no use to try again.
func isFinal(err error) bool {
	return errors.Is(err, ErrGone) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// isStatusDue tells whether the status should be written although nothing is decided otherwise by it: raises were
// admitted, or made that were.
func (c *committer) isStatusDue(state *allocation.State) bool {
	return !state.IsStatusCurrent() && time.Since(c.statusWritten) >= StatusDelay && c.store.statusWrites.Allow()
}

// isCompactionDue tells whether the ledger should be written although nothing is decided otherwise by it. The status does
// not wait, then: the ledger is written after it.
func (c *committer) isCompactionDue(state *allocation.State) bool {
	switch {
	case !state.IsLedgerChanged() || state.IsStatusChanged():
		c.compactableSince = time.Time{}
	case c.compactableSince.IsZero():
		c.compactableSince = time.Now()
	}
	return !c.compactableSince.IsZero() && time.Since(c.compactableSince) >= compactionDelay
}

// observe returns the books in line with the cluster where that is asked for or due, and otherwise as they are in memory.
//
// Books that were never in line with the spec that the allocation has now are brought in line with what the API server
// lists after they were read: what was given before is in no books, and no watch tells that it has seen all of it.
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
		return nil, fmt.Errorf("bring the books of ResourceQuotaAllocation %s in line with the ResourceQuotas: %w", c.name, err)
	}
	return state, nil
}

// look returns the projects of the allocation as they are seen.
func (c *committer) observation() allocation.Observation {
	return c.store.quotas.Observe(c.state.Selector(), c.state.Scopes(), c.state.Pending())
}

// refresh makes sure that what is seen is not older.
func (c *committer) refresh(since time.Time) error {
	ctx, cancel := context.WithTimeout(c.store.ctx, refreshTimeout)
	defer cancel()
	return c.store.quotas.Refresh(ctx, since)
}
