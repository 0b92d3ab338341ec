package ledgerstore

import "sync/atomic"

// waiting counts the callers whose operations wait in the group of a committer. It is safe for concurrent use.
type waiting struct{ count atomic.Int32 }

// place is the place of a caller. The group may still decide the operation of a caller that has left.
type place struct{ state atomic.Int32 }

// The states of a place.
const (
	placeReady int32 = iota
	placeTaken
	placeLeft
)

// enter prepares a place for the next wait of its caller.
func (p *place) enter() { p.state.Store(placeReady) }

// mayJoin reports whether an operation may wait for a release. One that waits already may go on.
func (w *waiting) mayJoin(p *place) bool {
	return p.state.Load() == placeTaken || w.count.Load() < waitingMax
}

// join counts the caller of a waiting operation.
func (w *waiting) join(p *place) {
	if p.state.CompareAndSwap(placeReady, placeTaken) {
		w.count.Add(1)
	}
}

// leave ends the wait of a caller.
func (w *waiting) leave(p *place) {
	if p.state.Swap(placeLeft) == placeTaken {
		w.count.Add(-1)
	}
}
