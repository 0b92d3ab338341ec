package groupcommit

import (
	"errors"
	"slices"
	"time"
)

// commit carries a batch through, in as many attempts as it takes. It finishes or postpones each operation, or defers
// failed housekeeping again.
func (g *Group[S]) commit(batch []*Operation[S]) {
	for attempt := 0; ; attempt++ {
		if batch = dropAbandoned(batch); len(batch) == 0 {
			return
		}
		err := g.attempt(batch, attempt)
		switch divisible := (*divisibleError)(nil); {
		case err == nil:
			return
		case errors.Is(err, ErrAgain):
		case len(batch) > 1 && errors.As(err, &divisible):
			first, second := divide(batch)
			g.commit(first)
			g.commit(second)
			return
		default:
			g.fail(batch, err)
			return
		}
	}
}

// dropAbandoned leaves out the operations of callers no longer waiting.
func dropAbandoned[S any](batch []*Operation[S]) []*Operation[S] {
	return slices.DeleteFunc(batch, func(op *Operation[S]) bool {
		if op.ctx == nil || op.ctx.Err() == nil {
			return false
		}
		op.finish(Nothing, op.ctx.Err())
		return true
	})
}

// divide divides a batch into the operations that make room and the others. If one part would be empty, it divides the
// batch into halves.
func divide[S any](batch []*Operation[S]) (first, second []*Operation[S]) {
	for _, op := range batch {
		if op.MakesRoom {
			first = append(first, op)
		} else {
			second = append(second, op)
		}
	}
	if len(first) == 0 || len(second) == 0 {
		half := len(batch) / 2
		return batch[:half:half], batch[half:]
	}
	return first, second
}

// attempt decides a batch once. Without an error, it settles the batch.
func (g *Group[S]) attempt(batch []*Operation[S], attempt int) error {
	g.mu.Lock()
	resumption := g.resumption
	g.mu.Unlock()
	state, err := g.copy.Load(batch, attempt)
	if err != nil {
		return err
	}
	effects, now := make([]Effect, len(batch)), time.Now()
	for i, op := range batch {
		effects[i] = op.Apply(state)
		if effects[i] == Postponed && !now.Before(op.Deadline) {
			effects[i] = Unconfirmed
		}
	}
	if err := g.copy.Commit(state, effects); err != nil {
		return err
	}
	g.finishBatch(batch, effects, resumption)
	return nil
}

// finishBatch finishes or postpones each operation of a batch that took effect.
func (g *Group[S]) finishBatch(batch []*Operation[S], effects []Effect, resumption int) {
	g.noteHousekeeping(batch, true)
	var postponed []*Operation[S]
	hasMadeRoom := false
	for i, op := range batch {
		if effects[i] == Postponed {
			postponed = append(postponed, op)
			continue
		}
		hasMadeRoom = hasMadeRoom || effects[i] == Changed && op.MakesRoom
		op.finish(effects[i], nil)
	}
	g.postpone(postponed, resumption, hasMadeRoom)
	g.copy.Finished()
}

// postpone keeps operations for later. It resumes them at once if their batch made room,
// or if others were resumed since their decision.
func (g *Group[S]) postpone(ops []*Operation[S], resumption int, hasMadeRoom bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, op := range ops {
		if !op.isTimed {
			op.isTimed = true
			time.AfterFunc(time.Until(op.Deadline), g.Resume)
		}
	}
	g.postponed = append(g.postponed, ops...)
	if hasMadeRoom || g.resumption != resumption {
		g.resumeLocked()
	}
}

// fail ends the operations of a batch with err, and defers housekeeping.
func (g *Group[S]) fail(batch []*Operation[S], err error) {
	g.noteHousekeeping(batch, false)
	for _, op := range batch {
		if op.isHousekeeping() {
			g.Defer(op)
			continue
		}
		op.finish(Nothing, err)
	}
}

// noteHousekeeping counts the failures of housekeeping in a row.
func (g *Group[S]) noteHousekeeping(batch []*Operation[S], hasSucceeded bool) {
	if !slices.ContainsFunc(batch, (*Operation[S]).isHousekeeping) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures++; hasSucceeded {
		g.failures = 0
	}
}
