package groupcommit

import (
	"context"
	"time"
)

// Effect says what an operation did to the copy of the state in memory.
type Effect int

const (
	// Nothing means that the copy did not change, and that the answer holds whatever is stored.
	Nothing Effect = iota
	// Changed means that the copy must be stored before the answer is given.
	Changed
	// Unconfirmed means that the copy did not change, and that the answer holds only if the copy is what is stored.
	Unconfirmed
	// Postponed means that the operation is to be decided later: when another one made room, or at its deadline. At the
	// deadline the effect counts as Unconfirmed.
	Postponed
)

// Decision is the subject of an operation.
type Decision[S any] interface {
	// Apply decides the operation on a state and changes the state accordingly. It runs again when its batch is decided
	// again, and must overwrite the results of earlier runs.
	Apply(state S) Effect
	// Committed runs once, after the operation took effect and before its caller hears of it. Until then everything
	// that Apply writes to belongs to the group, even if the caller has left.
	Committed(Effect)
}

// Operation is one change to, or question about, a state. Each operation is submitted once.
type Operation[S any] struct {
	Decision[S]
	// MakesRoom marks an operation whose change may help postponed ones. If storage rejects a batch for its size, the
	// group commits these operations before the others.
	MakesRoom bool
	// Apart keeps operations that take long out of the batches of others: they share batches only with each other.
	Apart bool
	// Deadline is until when the operation may be postponed.
	Deadline time.Time

	// ctx is that of the caller, and done receives the outcome once. Both are nil for housekeeping.
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
