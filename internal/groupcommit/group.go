package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// batchMax bounds the operations of one write.
	batchMax = 1024
	// deferDelay is the default of [Operation.MaxDelay]. It doubles with each failure.
	deferDelay    = 100 * time.Millisecond
	deferDelayMax = 15 * time.Second
	// deferredMax bounds the deferred operations: more are due at once, whatever their maximum delay.
	deferredMax = 64
)

var (
	// ErrAgain is returned by a [Copy] to repeat the decision of a batch, on the new copy.
	ErrAgain = errors.New("the state changed while the batch was decided")
	// ErrClosed is the error of operations on a closed group. They did not run.
	ErrClosed = errors.New("the group was closed")
)

// divisibleError marks an error that belongs only to the whole batch.
type divisibleError struct{ error }

func (e *divisibleError) Unwrap() error { return e.error }

// Divisible marks an error of [Copy.Commit] that may not apply to parts of the batch: storage rejected the sum of all
// changes, such as for its size. The group then commits parts of the batch, so only the operations at fault fail.
func Divisible(err error) error { return &divisibleError{err} }

// Copy is the copy of a state in memory, together with its storage. The group calls it from one goroutine at a time.
type Copy[S any] interface {
	// Load returns the state for the decisions of a batch. It reads the state from storage if there is no copy in
	// memory. The attempts for a batch are counted from 0: before attempt 0, nothing proves that the copy equals the
	// stored state.
	//
	// ErrAgain makes the group try again. Any other error ends the operations of the batch.
	Load(batch []*Operation[S], attempt int) (S, error)
	// Commit stores the state if an operation changed it. Otherwise it confirms the state if an answer depends on it.
	// effects has one effect for each operation, in order. Errors are like those of Load.
	Commit(state S, effects []Effect) error
	// Finished is called once a batch took effect and its callers know.
	Finished()
}

// Group commits operations on one state. It is safe for concurrent use. Its goroutine runs only while there is work.
type Group[S any] struct {
	ctx  context.Context
	name string
	copy Copy[S]

	mu         sync.Mutex
	isRunning  bool
	isClosed   bool
	used       time.Time // the time of the latest batch
	queue      []*Operation[S]
	deferred   []*Operation[S]
	isDue      bool      // the deferred operations are due
	due        time.Time // their deadline
	failures   int       // of housekeeping, in a row
	postponed  []*Operation[S]
	resumption int // the number of resumptions of postponed operations
}

// New returns a group that works until ctx ends. name is the state in error messages, such as "the ledger of project
// web".
func New[S any](ctx context.Context, name string, copied Copy[S]) *Group[S] {
	return &Group[S]{ctx: ctx, name: name, copy: copied, used: time.Now()}
}

// Do submits an operation and waits for its outcome. If ctx ends first, the operation may take effect all the same,
// unless it did not run yet.
func (g *Group[S]) Do(ctx context.Context, op *Operation[S]) error {
	op.ctx, op.done = ctx, make(chan error, 1)
	if !g.Submit(op) {
		return ErrClosed
	}
	select {
	case err := <-op.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s did not answer in time: %w", g.name, ctx.Err())
	case <-g.ctx.Done():
		return fmt.Errorf("%s: %w", g.name, g.ctx.Err())
	}
}

// Submit commits housekeeping at once: an operation without a caller. If the commit fails, the group tries again.
// Submit returns false if the group has closed.
func (g *Group[S]) Submit(op *Operation[S]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return false
	}
	g.queue = append(g.queue, op)
	g.startLocked()
	return true
}

// Defer commits housekeeping with the next batch, or by itself at its maximum delay. A batch of questions may
// leave it deferred. The group decides every other later operation after the housekeeping has taken effect. If the
// commit fails, the group tries again. Defer returns false if the group has closed.
func (g *Group[S]) Defer(op *Operation[S]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return false
	}
	if g.ctx.Err() != nil {
		return true // the group no longer commits
	}
	g.deferred = append(g.deferred, op)
	delay := g.delayLocked(op)
	if due := time.Now().Add(delay); len(g.deferred) == 1 || due.Before(g.due) {
		g.due = due
		time.AfterFunc(delay, g.startDeferred)
	}
	return true
}

// delayLocked returns how long deferred operations may wait, with the new one.
func (g *Group[S]) delayLocked(op *Operation[S]) time.Duration {
	switch {
	case g.failures > 0:
		return max(op.MaxDelay, min(deferDelay<<min(g.failures, 10), deferDelayMax))
	case len(g.deferred) >= deferredMax:
		return 0
	case op.MaxDelay == 0 || op.MakesRoom && len(g.postponed) > 0:
		return deferDelay
	default:
		return op.MaxDelay
	}
}

// HasWork reports whether a batch is being committed, or housekeeping waits for a commit.
func (g *Group[S]) HasWork() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isRunning || len(g.deferred) > 0
}

func (g *Group[S]) startDeferred() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.deferred) > 0 && !time.Now().Before(g.due) && g.ctx.Err() == nil {
		g.isDue = true
		g.startLocked()
	}
}

// Resume decides postponed operations again, ahead of later arrivals.
func (g *Group[S]) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resumeLocked()
}

func (g *Group[S]) resumeLocked() {
	g.resumption++
	if len(g.postponed) == 0 {
		return
	}
	g.queue = append(g.postponed, g.queue...)
	g.postponed = nil
	g.startLocked()
}

// CloseIdle closes the group if it is empty and took no operation for some time, and reports whether it did.
func (g *Group[S]) CloseIdle(unused time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isRunning || len(g.queue)+len(g.deferred)+len(g.postponed) > 0 || time.Since(g.used) < unused {
		return false
	}
	g.isClosed = true
	return true
}

func (g *Group[S]) startLocked() {
	if !g.isRunning {
		g.isRunning = true
		go g.run()
	}
}

func (g *Group[S]) run() {
	for batch := g.take(); batch != nil; batch = g.take() {
		g.commit(batch)
	}
}

// take returns the waiting operations of the next batch. If there are none it marks the group as idle and returns nil.
func (g *Group[S]) take() []*Operation[S] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = time.Now()
	if len(g.queue) == 0 && !g.isDue {
		g.isRunning = false
		return nil
	}
	waiting := g.queue
	if g.isDue || slices.ContainsFunc(g.queue, func(op *Operation[S]) bool { return !op.LeavesDeferred }) {
		waiting = append(g.deferred, g.queue...)
		g.deferred, g.isDue = nil, false
	}
	n := 1
	for n < min(len(waiting), batchMax) && waiting[n].Apart == waiting[0].Apart {
		n++
	}
	g.queue = waiting[n:]
	return waiting[:n:n]
}
