package quotaincrease

import (
	"maps"
	"slices"
	"sync"
	"time"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// outcome is what became of a namespace. The zero value is that it has no quota and needs none.
type outcome struct {
	// config and definition name what the quota is by, or would be by.
	config, definition string
	// reason is why the definition is not in force here, or empty; message says more.
	reason, message string
	// others are the definitions that other configurations have for the namespace.
	others []holder
	// isHeldBack tells that a cap holds something back.
	isHeldBack bool
}

func (o outcome) equal(p outcome) bool {
	return o.config == p.config && o.definition == p.definition && o.reason == p.reason && o.message == p.message && slices.Equal(o.others, p.others)
}

// outcomes remembers what became of each namespace. It is safe for concurrent use.
type outcomes struct {
	mu sync.Mutex
	of map[string]outcome
	// failing is since when nothing could be written in a namespace.
	failing  map[string]time.Time
	onChange func(config string)
}

// reportFailureAfter is how long writes have to fail until that is told. One that fails may succeed at once when it is
// tried again, and what is said should not change all the time.
const reportFailureAfter = 3 * time.Second

// set enters what became of a namespace, and tells of the configurations that it concerns. It returns what was
// entered before.
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

// isFailing enters that a write in a namespace has failed, and tells whether all have for long enough to say so.
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

// failed enters why a namespace could not be brought in line, unless something is known of it: one that nothing is
// known of would keep everybody waiting for what is said of all.
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

// hold enters that a cap holds something back in a namespace, before it is known what else becomes of it.
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

// isHeldBack tells whether a cap may hold something back in a namespace. Of one that is being looked at for the
// first time it may.
func (o *outcomes) isHeldBack(namespace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, known := o.of[namespace]
	return !known || now.isHeldBack
}

// all returns a copy of everything.
func (o *outcomes) all() map[string]outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.of)
}
