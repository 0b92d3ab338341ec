package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// warmUpShare is the part of the duration before the count begins, as a divisor.
const warmUpShare = 5

// measureRate offers creates at a fixed rate, independent of the answers, and prints the latency added by protection:
// first of an unprotected kind, then as many of a protected one.
func (b *bench) measureRate(ctx context.Context) error {
	for _, clients := range b.clients {
		if clients == 0 {
			return fmt.Errorf("nothing can be offered by 0 clients")
		}
		connections, err := b.connect(clients)
		if err != nil {
			return err
		}
		fmt.Printf("\n%g creates/s, at random times, offered by %d clients for %s; %s\n\n", b.rate, clients, b.duration, memoryOf(b.system))
		printRateHead()
		b.offer(ctx, clients, b.duration/warmUpShare, b.creator(connections, plenty), b.spread(connections), b.unprotected(connections))
		if err := b.settle(ctx); err != nil {
			return err
		}
		alone := b.offer(ctx, clients, b.duration, b.unprotected(connections))
		printRow("unprotected create", alone[0])
		for _, m := range []struct {
			name   string
			create operation
		}{
			{"one consumer", b.creator(connections, plenty)},
			{fmt.Sprintf("%d consumers", manyConsumers), b.spread(connections)},
		} {
			if err := b.compareRates(ctx, clients, m.name, alone[0], m.create); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareRates offers protected creates and prints their result, beside unprotected ones.
func (b *bench) compareRates(ctx context.Context, clients int, name string, unprotected result, create operation) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	before, err := b.ledgerWrites(ctx)
	if err != nil {
		return err
	}
	protected := b.offer(ctx, clients, b.duration, create)[0]
	if err := b.settle(ctx); err != nil {
		return err
	}
	after, err := b.ledgerWrites(ctx)
	if err != nil {
		return err
	}
	printRow("protected create, "+name, protected)
	fmt.Printf("| **added** (%s) | | %s | %s | |\n", after.since(before, protected.count), round(protected.p50-unprotected.p50), round(protected.p99-unprotected.p99))
	return nil
}

func printRateHead() {
	fmt.Println("| | created | p50 | p99 | slowest |\n| --- | --- | --- | --- | --- |")
}

func printRow(name string, r result) {
	created := fmt.Sprintf("%.0f/s", r.perSecond())
	if r.failures > 0 {
		created += fmt.Sprintf(", %d failed: %v", r.failures, r.failure)
	}
	fmt.Printf("| %s | %s | %s | %s | %s |\n", name, created, round(r.p50), round(r.p99), round(r.slowest))
}

// offer has clients carry out operations in turns, each so many times a second, for some time, and returns the result
// of each. The gaps have an exponential distribution. Operations fall due independent of the answers to others. The
// latency of one counts from its due time: if no client is free, the wait for one is a part of it.
func (b *bench) offer(ctx context.Context, clients int, duration time.Duration, operations ...operation) []result {
	return b.offerAt(ctx, b.rate, clients, duration, operations...)
}

// offerAt is offer at a rate of its own.
func (b *bench) offerAt(ctx context.Context, rate float64, clients int, duration time.Duration, operations ...operation) []result {
	due := dueTimes(rate*float64(len(operations)), duration)
	results := make([]result, len(operations))
	latencies := make([][]time.Duration, len(operations))
	var taken atomic.Int64
	var mu sync.Mutex
	begin := time.Now()
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for {
				n := int(taken.Add(1)) - 1
				if n >= len(due) || !waitUntil(ctx, begin.Add(due[n])) {
					return
				}
				sort := n % len(operations)
				err := operations[sort](ctx, client, n/len(operations))
				latency := time.Since(begin.Add(due[n]))
				mu.Lock()
				if err != nil {
					results[sort].failures++
					results[sort].failure = err
				} else {
					latencies[sort] = append(latencies[sort], latency)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for i := range results {
		results[i].elapsed = time.Since(begin)
		results[i].summarize(latencies[i])
	}
	return results
}

// dueTimes are the due times of so many operations a second, since the beginning.
func dueTimes(rate float64, duration time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2)) // the same in every run
	var due []time.Duration
	for at := time.Duration(0); ; {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if at >= duration {
			return due
		}
		due = append(due, at)
	}
}

// waitUntil reports whether the time has come before ctx ended.
func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
