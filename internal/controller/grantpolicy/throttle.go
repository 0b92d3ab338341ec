package grantpolicy

import (
	"errors"
	"time"
)

const (
	// slowEvaluation is the longest duration of an evaluation without throttling its policy.
	slowEvaluation = 10 * time.Millisecond
	// restFactor is how long a slow policy rests, as a multiple of the duration of its last evaluation.
	restFactor = 3
)

// errThrottled means that an evaluation has to wait, because the evaluations of its policy take long.
var errThrottled = errors.New("the policy's evaluations take long, others go first")

// throttle limits a slow policy to a share of the workers: one object at a time, followed by a rest. The controller's
// lock guards it.
type throttle struct {
	took  time.Duration // of the last evaluation
	until time.Time     // end of the rest
}

// begin reports whether an evaluation may begin.
func (p *throttle) begin(now time.Time) bool {
	if now.Before(p.until) {
		return false
	}
	if p.took > slowEvaluation {
		p.until = now.Add((1 + restFactor) * p.took)
	}
	return true
}

// end records the duration of an evaluation at its end.
func (p *throttle) end(now time.Time, took time.Duration) {
	p.took, p.until = took, now
	if took > slowEvaluation {
		p.until = now.Add(restFactor * took)
	}
}
