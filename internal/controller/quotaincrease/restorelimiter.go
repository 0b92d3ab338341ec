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
	// restoresPerSecond is how often the ResourceQuota of one namespace is restored at most, after restoresAtOnce times.
	restoresPerSecond = 1
	restoresAtOnce    = 10
)

// restoreLimiter slows down the restoring of what somebody else keeps changing: two writers that disagree, and both react at
// once, would keep the API server busy with nothing else. What is written for the first time is not slowed down. It
// is safe for concurrent use.
type restoreLimiter struct {
	mu sync.Mutex
	of map[string]*restores // by namespace
}

// restores is what was written last, and how often it may be written again.
type restores struct {
	written uint64
	limiter *rate.Limiter
}

// contestedError says that a ResourceQuota is not restored before some time has passed.
type contestedError struct{ wait time.Duration }

func (e *contestedError) Error() string { return fmt.Sprintf("it is restored after %s", e.wait) }

// check returns an error if a namespace is to be given the spec that it was given last too often.
func (b *restoreLimiter) check(namespace string, spec *corev1.ResourceQuotaSpec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.of[namespace]
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

// wrote enters what a namespace was given.
func (b *restoreLimiter) recordWrite(namespace string, spec *corev1.ResourceQuotaSpec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[string]*restores{}
	}
	if b.of[namespace] == nil {
		b.of[namespace] = &restores{}
	}
	b.of[namespace].written = hash(spec)
}

// remove forgets a namespace.
func (b *restoreLimiter) remove(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, namespace)
}

func hash(spec *corev1.ResourceQuotaSpec) uint64 {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(spec) // neither of the two can fail
	return sum.Sum64()
}
