package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// batchMax bounds how many operations one write acknowledges.
	batchMax = 1024
	// deferDelay is how long housekeeping waits for a commit to ride along with. With each failure it doubles.
	deferDelay    = 100 * time.Millisecond
	deferDelayMax = 15 * time.Second
)

var (
	// ErrAgain is what a [Copy] returns to have a batch decided again, on the copy as it is then.
	ErrAgain = errors.New("the state changed while the batch was decided")
	// ErrClosed is returned for operations of a group that was closed. They did not run.
	ErrClosed = errors.New("the group was closed")
)

// divisibleError marks an error as one of the whole batch only.
type divisibleError struct{ error }

func (e *divisibleError) Unwrap() error { return e.error }

// Divisible marks an error of [Copy.Commit] as one that may not apply to parts of the batch: storage rejected what all
// operations come to, such as its size. The group commits them in parts, so that only the operations fail that cause
// it.
func Divisible(err error) error { return &divisibleError{err} }

// Copy is the copy of a state in memory, together with its storage. The group calls it from one goroutine at a time.
type Copy[S any] interface {
	// Load returns the state to decide a batch on. It reads the state from storage if there is no copy in memory. The
	// attempts for a batch are counted from 0: before attempt 0, nothing proves that the copy is still what is stored.
	//
	// ErrAgain has the group try again. Any other error ends the operations of the batch.
	Load(batch []*Operation[S], attempt int) (S, error)
	// Commit stores the state if an operation changed it, and otherwise confirms it if an answer depends on that. The
	// effects are those of the operations in their order. Errors are as those of Load.
	Commit(state S, effects []Effect) error
	// Settled is called once a batch took effect and its callers know.
	Settled()
}

// Group commits operations on one state. It is safe for concurrent use. Its goroutine runs only while there is work.
type Group[S any] struct {
	ctx  context.Context
	name string
	copy Copy[S]

	mu         sync.Mutex
	isRunning  bool
	isClosed   bool
	used       time.Time // when the latest batch was taken
	queue      []*Operation[S]
	deferred   []*Operation[S]
	isDue      bool      // the deferred operations are due
	due        time.Time // when they are
	failures   int       // of housekeeping, in a row
	postponed  []*Operation[S]
	resumption int // how often postponed operations were resumed
}

// New returns a group that works until ctx ends. Errors call the state by its name, such as "the ledger of project
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

// Submit has an operation committed at once, and does not wait for it. If that fails, the group tries again. It reports
// false if the group was closed.
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

// Defer has an operation committed with the next batch, or in a while by itself. If that fails, the group tries again.
// It reports false if the group was closed.
func (g *Group[S]) Defer(op *Operation[S]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return false
	}
	if g.ctx.Err() != nil {
		return true // nothing is committed any more
	}
	g.deferred = append(g.deferred, op)
	if len(g.deferred) == 1 && !g.isDue {
		delay := min(deferDelay<<min(g.failures, 10), deferDelayMax)
		g.due = time.Now().Add(delay)
		time.AfterFunc(delay, g.startDeferred)
	}
	return true
}

func (g *Group[S]) startDeferred() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.deferred) > 0 && !time.Now().Before(g.due) {
		g.isDue = true
		g.startLocked()
	}
}

// Resume has postponed operations decided again, ahead of those that arrived after them.
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

// CloseIdle closes the group if no operation waits and none was taken for some time, and reports whether it did.
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

// take returns the operations that wait, as far as they go into one batch. It returns nil after it marked the group as
// idle.
func (g *Group[S]) take() []*Operation[S] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = time.Now()
	if len(g.queue) == 0 && !g.isDue {
		g.isRunning = false
		return nil
	}
	waiting := append(g.deferred, g.queue...)
	g.deferred, g.isDue = nil, false
	n := 1
	for n < min(len(waiting), batchMax) && waiting[n].Apart == waiting[0].Apart {
		n++
	}
	g.queue = waiting[n:]
	return waiting[:n:n]
}
