package bucket

import (
	"container/heap"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// firstDelay is how long the first change after a quiet time waits for more, such as the creates of one command.
	// Together with the wait for the bound on all consumers it stays well below a second: people expect their change by
	// then.
	firstDelay = 250 * time.Millisecond
	// interval is the least time between two publications of a consumer. People read these objects, and look again
	// after some seconds; each publication costs a write of every changed bucket and of its effective grant.
	interval = 3 * time.Second
	// consumersPerSecond bounds the publications of all consumers, after a burst. 30 busy consumers reach it; with
	// more, the publications of each become rarer, and the cost no longer grows with their number. The burst covers a
	// simultaneous change of all views on a platform of 200 consumers.
	consumersPerSecond = 10
	consumersBurst     = 200
	// retryMax bounds the delay after repeated failures. It doubles from interval.
	retryMax = 30 * time.Second
)

// pace limits the publications of consumers: each once per interval, and all together at a bounded rate.
type pace struct {
	limiter flowcontrol.RateLimiter
	mu      sync.Mutex
	// published are the times of the last publications. The time of a known consumer without a publication is zero.
	published map[quotav1alpha1.ConsumerRef]time.Time
}

func newPace() *pace {
	return &pace{
		limiter:   flowcontrol.NewTokenBucketRateLimiter(consumersPerSecond, consumersBurst),
		published: map[quotav1alpha1.ConsumerRef]time.Time{},
	}
}

// know records a consumer with possible buckets or a ledger, and reports whether it was known.
func (p *pace) know(consumer quotav1alpha1.ConsumerRef) (before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, before = p.published[consumer]; !before {
		p.published[consumer] = time.Time{}
	}
	return before
}

// forget drops a consumer.
func (p *pace) forget(consumer quotav1alpha1.ConsumerRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.published, consumer)
}

// consumers returns the known consumers.
func (p *pace) consumers() []quotav1alpha1.ConsumerRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.published))
}

// last returns the time of a consumer's last publication, or zero.
func (p *pace) last(consumer quotav1alpha1.ConsumerRef) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published[consumer]
}

// early returns how long a consumer has to wait for its next publication, 0 if it is due.
func (p *pace) early(consumer quotav1alpha1.ConsumerRef) time.Duration {
	return max(0, interval-time.Since(p.last(consumer)))
}

// begin waits for the bound on all consumers, records the publication of one, and reports whether it was known. Call it
// before the read of the ledger: then a later change gets its publication after the interval.
func (p *pace) begin(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (known bool, err error) {
	if err := p.limiter.Wait(ctx); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known = p.published[consumer]
	p.published[consumer] = time.Now()
	return known, nil
}

// newQueue returns a queue in the order of last publications, the oldest first. So a quiet consumer does not wait for
// many busy ones, and each has its turn.
func newQueue(p *pace) workqueue.TypedRateLimitingInterface[quotav1alpha1.ConsumerRef] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[quotav1alpha1.ConsumerRef]{Queue: &turns{pace: p}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[quotav1alpha1.ConsumerRef](interval, retryMax),
		workqueue.TypedRateLimitingQueueConfig[quotav1alpha1.ConsumerRef]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[quotav1alpha1.ConsumerRef]{Queue: queue}),
		})
}

// turns implements [workqueue.Queue]. Its user locks it, and holds no lock of the pace.
type turns struct {
	pace    *pace
	waiting byLast
}

func (t *turns) Touch(quotav1alpha1.ConsumerRef) {}

func (t *turns) Push(consumer quotav1alpha1.ConsumerRef) {
	heap.Push(&t.waiting, turn{consumer, t.pace.last(consumer)})
}

func (t *turns) Len() int { return len(t.waiting) }

func (t *turns) Pop() quotav1alpha1.ConsumerRef { return heap.Pop(&t.waiting).(turn).consumer }

// turn is a queued consumer, and the time of its last publication. The time does not change while it waits.
type turn struct {
	consumer quotav1alpha1.ConsumerRef
	last     time.Time
}

// byLast implements [heap.Interface].
type byLast []turn

func (b byLast) Len() int           { return len(b) }
func (b byLast) Less(i, j int) bool { return b[i].last.Before(b[j].last) }
func (b byLast) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byLast) Push(x any)        { *b = append(*b, x.(turn)) }
func (b *byLast) Pop() any {
	last := len(*b) - 1
	x := (*b)[last]
	*b = (*b)[:last]
	return x
}
