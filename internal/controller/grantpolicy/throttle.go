package grantpolicy

import (
	"errors"
	"time"
)

const (
	// slowEvaluation is what an evaluation takes that is kept from holding up other policies.
	slowEvaluation = 10 * time.Millisecond
	// restFactor is how long a slow policy rests, as a multiple of the time for which it was evaluated.
	restFactor = 3
)

// errThrottled says that an evaluation has to wait, since those of the same policy take long.
var errThrottled = errors.New("the policy's evaluations take long, others go first")

// throttle keeps a policy that takes long from taking the time of all others: it is evaluated for one
// object at a time, and then rests. It is guarded by the controller's lock.
type throttle struct {
	took  time.Duration // by the last evaluation
	until time.Time     // it rests
}

// begin tells whether an evaluation may begin.
func (p *throttle) begin(now time.Time) bool {
	if now.Before(p.until) {
		return false
	}
	if p.took > slowEvaluation {
		p.until = now.Add((1 + restFactor) * p.took)
	}
	return true
}

// end notes how long an evaluation took that has just ended.
func (p *throttle) end(now time.Time, took time.Duration) {
	p.took, p.until = took, now
	if took > slowEvaluation {
		p.until = now.Add(restFactor * took)
	}
}
