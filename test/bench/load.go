package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// result is the result of one measurement.
type result struct {
	count    int
	failures int
	elapsed  time.Duration
	// p50, p99 and slowest are latencies of successful operations.
	p50, p99, slowest time.Duration
	// cpuEach is the CPU time of the system for each operation, without that of the clients.
	cpuEach time.Duration
	// cpuBefore is the CPU time used by all servers before the measurement.
	cpuBefore time.Duration
	// failure is one of the failures, if there were any.
	failure error
	// latencies are those of all successful operations.
	latencies []time.Duration
}

func (r result) perSecond() float64 { return float64(r.count) / r.elapsed.Seconds() }

func (r result) String() string {
	text := fmt.Sprintf("%7.0f/s  p50 %8s  p99 %8s  server CPU %8s each", r.perSecond(), round(r.p50), round(r.p99), round(r.cpuEach))
	if r.failures > 0 {
		text += fmt.Sprintf("  (%d failed: %v)", r.failures, r.failure)
	}
	return text
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

// operation is one operation of a client: it gets the number of its client and a number of its own.
type operation func(ctx context.Context, client, n int) error

// load runs operate in a closed loop in each of the clients until duration has passed or, if most is not zero, until
// most operations have started.
func (b *bench) load(ctx context.Context, clients int, most int, operate operation) result {
	var started atomic.Int64
	var mu sync.Mutex
	var r result
	var latencies []time.Duration
	begin := time.Now()
	r.cpuBefore = cpuOf(b.system)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			var own []time.Duration
			for ctx.Err() == nil {
				n := int(started.Add(1)) - 1
				if most > 0 && n >= most || most == 0 && time.Since(begin) >= b.duration {
					break
				}
				at := time.Now()
				if err := operate(ctx, client, n); err != nil {
					mu.Lock()
					r.failures++
					r.failure = err
					mu.Unlock()
					continue
				}
				own = append(own, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, own...)
		})
	}
	group.Wait()
	r.elapsed = time.Since(begin)
	if r.summarize(latencies); r.count > 0 {
		r.cpuEach = (cpuOf(b.system) - r.cpuBefore) / time.Duration(r.count)
	}
	return r
}

// loadSettled is load for creates: their CPU time includes making and settling all their claims.
func (b *bench) loadSettled(ctx context.Context, clients int, operate operation) result {
	r := b.load(ctx, clients, 0, operate)
	if err := b.settle(ctx); err != nil && ctx.Err() == nil {
		r.failures++
		r.failure = err
	}
	if r.count > 0 {
		r.cpuEach = (cpuOf(b.system) - r.cpuBefore) / time.Duration(r.count)
	}
	return r
}

// summarize sorts latencies, and fills in the figures from them.
func (r *result) summarize(latencies []time.Duration) {
	slices.Sort(latencies)
	r.latencies = latencies
	if r.count = len(latencies); r.count > 0 {
		r.p50, r.p99, r.slowest = latencies[r.count/2], latencies[r.count*99/100], latencies[r.count-1]
	}
}
