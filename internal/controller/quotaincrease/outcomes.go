package quotaincrease

import (
	"maps"
	"slices"
	"sync"
	"time"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// outcome is the result of a namespace. The zero value means that it has no quota and needs none.
type outcome struct {
	// config and definition name the definition of the quota.
	config, definition string
	// reason is why the definition is not effective here, or empty; message has the details.
	reason, message string
	// others are the definitions of other configurations for the namespace.
	others []holder
	// isHeldBack reports whether a cap holds something back.
	isHeldBack bool
}

func (o outcome) equal(p outcome) bool {
	return o.config == p.config && o.definition == p.definition && o.reason == p.reason && o.message == p.message && slices.Equal(o.others, p.others)
}

// outcomes remembers the outcome of each namespace. It is safe for concurrent use.
type outcomes struct {
	mu sync.Mutex
	of map[string]outcome
	// failing is when the writes in a namespace began to fail.
	failing map[string]time.Time
	// retries are the delays of the next retries after the end of a cap.
	retries  map[string]time.Duration
	onChange func(config string)
}

// reportFailureAfter is how long writes have to fail before a report of the failure. A retry often succeeds at once,
// and the status should not flap.
const reportFailureAfter = 3 * time.Second

// set records the outcome of a namespace, and notifies the configurations concerned. It returns the previous outcome.
func (o *outcomes) set(namespace string, now outcome) outcome {
	o.mu.Lock()
	if o.of == nil {
		o.of = map[string]outcome{}
	}
	before, was := o.of[namespace]
	o.of[namespace] = now
	if now.reason != openmcpv1alpha1.ReasonWriteFailed {
		delete(o.failing, namespace)
	}
	o.mu.Unlock()
	if !was || !before.equal(now) {
		o.notify(before, now)
	}
	return before
}

// isFailing records a failed write in a namespace, and reports whether writes have failed for long enough.
func (o *outcomes) isFailing(namespace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, was := o.failing[namespace]
	if was {
		return time.Since(since) >= reportFailureAfter
	}
	if o.failing == nil {
		o.failing = map[string]time.Time{}
	}
	o.failing[namespace] = time.Now()
	return false
}

// failed records why a reconcile failed, unless the namespace has an outcome: a namespace without one would delay the
// status of all configurations.
func (o *outcomes) failed(namespace string, err error) {
	o.mu.Lock()
	_, known := o.of[namespace]
	o.mu.Unlock()
	if !known {
		o.set(namespace, outcome{reason: openmcpv1alpha1.ReasonWriteFailed, message: err.Error()})
	}
}

// remove forgets a namespace.
func (o *outcomes) remove(namespace string) {
	o.mu.Lock()
	before := o.of[namespace]
	delete(o.of, namespace)
	delete(o.failing, namespace)
	delete(o.retries, namespace)
	o.mu.Unlock()
	o.notify(before)
}

func (o *outcomes) notify(of ...outcome) {
	configs := map[string]bool{}
	for _, each := range of {
		configs[each.config] = true
		for _, other := range each.others {
			configs[other.config] = true
		}
	}
	delete(configs, "")
	for config := range configs {
		o.onChange(config)
	}
}

// markHeldBack records that a cap holds something back, before the rest of the outcome exists.
func (o *outcomes) markHeldBack(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]outcome{}
	}
	if now, known := o.of[namespace]; known {
		now.isHeldBack = true
		o.of[namespace] = now
	}
}

// isHeldBack reports whether a cap may hold something back in a namespace. During a first reconcile it may.
func (o *outcomes) isHeldBack(namespace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, known := o.of[namespace]
	return !known || now.isHeldBack
}

// capEnded records the end of a cap of a namespace.
func (o *outcomes) capEnded(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.retries == nil {
		o.retries = map[string]time.Duration{}
	}
	o.retries[namespace] = heldBackRetryMin
}

// nextRetry returns the delay before the next attempt for the held back quota of a namespace.
func (o *outcomes) nextRetry(namespace string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	delay, isSoon := o.retries[namespace]
	if !isSoon {
		return heldBackRetry
	}
	if next := 2 * delay; next < heldBackRetry {
		o.retries[namespace] = next
	} else {
		delete(o.retries, namespace)
	}
	return delay
}

// all returns a copy of all outcomes.
func (o *outcomes) all() map[string]outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.of)
}
