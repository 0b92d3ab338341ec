package quotaincrease

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
)

const (
	// restoresPerSecond bounds the restores of one namespace's ResourceQuota, after restoresAtOnce restores.
	restoresPerSecond = 1
	restoresAtOnce    = 10
)

// restoreLimiter limits the rate of restoring a ResourceQuota to the same spec: two disagreeing writers, both reacting
// at once, would overload the API server. A new spec has no limit. It is safe for concurrent use.
type restoreLimiter struct {
	mu sync.Mutex
	of map[string]*restores // by namespace
}

// restores is the last written spec, and the limit of its restores.
type restores struct {
	written uint64
	limiter *rate.Limiter
}

// contestedError means that the reconciler restores a ResourceQuota only after some time.
type contestedError struct{ wait time.Duration }

func (e *contestedError) Error() string { return fmt.Sprintf("it is restored after %s", e.wait) }

// check returns an error if a namespace got the same spec too often.
func (l *restoreLimiter) check(namespace string, spec *corev1.ResourceQuotaSpec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.of[namespace]
	if last == nil || last.written != hash(spec) {
		return nil
	}
	if last.limiter == nil {
		last.limiter = rate.NewLimiter(restoresPerSecond, restoresAtOnce)
	}
	if restore := last.limiter.Reserve(); restore.Delay() > 0 {
		defer restore.Cancel()
		return &contestedError{restore.Delay()}
	}
	return nil
}

// recordWrite records the spec written to a namespace.
func (l *restoreLimiter) recordWrite(namespace string, spec *corev1.ResourceQuotaSpec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*restores{}
	}
	if l.of[namespace] == nil {
		l.of[namespace] = &restores{}
	}
	l.of[namespace].written = hash(spec)
}

// remove forgets a namespace.
func (l *restoreLimiter) remove(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, namespace)
}

func hash(spec *corev1.ResourceQuotaSpec) uint64 {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(spec) // neither of the two can fail
	return sum.Sum64()
}
