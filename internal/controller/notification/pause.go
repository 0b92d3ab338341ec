package notification

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// pause keeps all attempts apart while the receiver accepts nothing, however many notifications are due. The pause
// after each failure is longer, and a success ends it.
type pause struct {
	mu    sync.Mutex
	until time.Time
	pace  workqueue.TypedRateLimiter[struct{}]
}

func newPause() *pause {
	return &pause{pace: workqueue.NewTypedItemExponentialFailureRateLimiter[struct{}](delayMin, delayMax)}
}

// left returns the time until the next attempt, or 0.
func (p *pause) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.until))
}

func (p *pause) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(p.pace.When(struct{}{}))
}

func (p *pause) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Forget(struct{}{})
	p.until = time.Time{}
}
