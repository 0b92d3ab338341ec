package groupcommit

import (
	"context"
	"time"
)

// Effect is the effect of an operation on the copy of the state in memory.
type Effect int

const (
	// Nothing means that the copy did not change, and the answer holds for any stored state.
	Nothing Effect = iota
	// Changed means that the group must store the copy before it answers.
	Changed
	// Unconfirmed means that the copy did not change, and the answer holds only if the copy equals the stored state.
	Unconfirmed
	// Postponed means to decide the operation later: when another one made room, or at its deadline. At the deadline
	// the effect counts as Unconfirmed.
	Postponed
)

// Decision is the subject of an operation.
type Decision[S any] interface {
	// Apply decides the operation on a state and changes the state accordingly. It runs again when its batch is decided
	// again, and must overwrite the results of earlier runs.
	Apply(state S) Effect
	// Committed runs once, after the operation took effect and before its caller is informed. Until then all results of
	// Apply belong to the group, even if the caller has left.
	Committed(Effect)
}

// Operation is one change to, or question about, a state. Each operation is submitted once.
type Operation[S any] struct {
	Decision[S]
	// MakesRoom marks an operation whose change may help postponed ones. If storage rejects a batch for its size, the
	// group commits these operations before the others.
	MakesRoom bool
	// Apart keeps slow operations out of the batches of others: they share batches only with each other.
	Apart bool
	// Deadline is the end of postponement.
	Deadline time.Time
	// MaxDelay bounds how long deferred housekeeping waits for a commit to ride along with. Default: 100 ms.
	MaxDelay time.Duration
	// LeavesDeferred marks a question whose answer does not depend on deferred housekeeping. The group need not commit
	// the housekeeping for it.
	LeavesDeferred bool

	// ctx belongs to the caller, and done receives the outcome once. Both are nil for housekeeping.
	ctx     context.Context
	done    chan error
	isTimed bool // a timer for the deadline runs
}

// isHousekeeping reports whether no caller waits for the operation.
func (o *Operation[S]) isHousekeeping() bool { return o.done == nil }

// finish hands the outcome to the caller.
func (o *Operation[S]) finish(effect Effect, err error) {
	if err == nil {
		o.Committed(effect)
	}
	if o.done != nil {
		o.done <- err
	}
}
