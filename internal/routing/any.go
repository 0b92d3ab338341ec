package routing

import (
	"context"
	"time"
)

// anyTimeout bounds the wait for one of several replicas. Each decides with its own state, so there is no better one.
const anyTimeout = time.Second

// ForwardToAny sends a review to the other live replicas in turn, and returns the first answer. It returns false if no
// replica can decide the review in time.
func (p *Peers) ForwardToAny(ctx context.Context, path string, review []byte) ([]byte, bool) {
	for _, other := range p.alive() {
		timeout := anyTimeout
		if deadline, ok := ctx.Deadline(); ok {
			timeout = min(timeout, time.Until(deadline))
		}
		if timeout <= 0 {
			return nil, false
		}
		asking, cancel := context.WithTimeout(ctx, timeout)
		answer, err := p.sender.send(asking, other.address, path, timeout, review)
		cancel()
		if err == nil {
			return answer, true
		}
		p.Log.V(1).Info("another replica cannot decide a review either", "address", other.address, "err", err.Error())
	}
	return nil, false
}
