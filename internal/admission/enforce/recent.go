package enforce

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// recentFor is the least time for which a reviewed object is remembered.
const recentFor = admittedFor

// recent remembers objects for a while. The zero value is ready to use.
type recent struct {
	mu              sync.Mutex
	since           time.Time // of current
	current, before map[types.UID]struct{}
}

func (r *recent) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked()
	r.current[uid] = struct{}{}
}

func (r *recent) has(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked()
	_, current := r.current[uid]
	_, before := r.before[uid]
	return current || before
}

// turnLocked begins another set when the current one is full of time.
func (r *recent) turnLocked() {
	switch age := time.Since(r.since); {
	case r.current == nil || age > 2*recentFor:
		r.before, r.current, r.since = nil, map[types.UID]struct{}{}, time.Now()
	case age > recentFor:
		r.before, r.current, r.since = r.current, map[types.UID]struct{}{}, time.Now()
	}
}

// Reviewed tells whether this process has reviewed the create of an object within the last minute
// or so.
func (h *Handler) Reviewed(uid types.UID) bool { return h.reviewed.has(uid) }
