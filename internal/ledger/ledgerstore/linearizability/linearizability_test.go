// Package linearizability checks the answers to callers of several ledger stores on one faulty storage. One order of
// all operations must explain every answer. In this order each operation takes effect at one instant of its call.
package linearizability

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bursar/bursar/internal/ledger"
)

const (
	rounds       = 80
	initialLimit = 6
	processes    = 3
	clients      = 6
	lives        = 4 // of reservations, for each client
)

func TestLinearizable(t *testing.T) {
	var operations, unknown, undecided int
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			var p *platform
			synctest.Test(t, func(t *testing.T) { p = run(t, seed) })
			if check(t, p) == porcupine.Unknown {
				undecided++
			}
			checkRevisions(t, p)
			operations += len(p.all)
			for _, o := range p.all {
				if o.Output.(output).unknown {
					unknown++
				}
			}
		})
	}
	t.Logf("%d operations, of which %d had an unknown outcome", operations, unknown)
	if undecided > rounds/10 {
		t.Errorf("%d of %d histories could not be checked in time", undecided, rounds)
	}
}

// run lets every client live through some reservations while an administrator changes the limit.
func run(t *testing.T, seed uint64) *platform {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p := newPlatform(ctx, t, seed, processes)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for life := range lives {
				p.live(ctx, client, fmt.Sprintf("%d.%d", client, life))
			}
		})
	}
	group.Go(func() {
		for range lives {
			p.perform(ctx, clients, p.anyStore(), input{kind: setLimit, amount: int64(3 + p.roll(6))})
			p.perform(ctx, clients, p.anyStore(), input{kind: view})
		}
	})
	group.Wait()
	for _, connection := range p.connections {
		connection.Deliver()
	}
	return p
}

// live takes one reservation to its end, with every step taken by some process. One in four stays.
func (p *platform) live(ctx context.Context, client int, key string) {
	in := input{kind: reserve, key: key, amount: int64(1 + p.roll(3))}
	var out output
	switch p.roll(4) {
	case 0: // the caller may leave before the answer
		hasty, leave := context.WithTimeout(ctx, time.Duration(p.roll(5))*time.Millisecond)
		out = p.perform(hasty, client, p.anyStore(), in)
		leave()
	case 1: // ask two processes at once
		other := make(chan output)
		go func() { other <- p.perform(ctx, client+clients+1, p.anyStore(), in) }()
		out = p.perform(ctx, client, p.anyStore(), in)
		if twin := <-other; twin.unknown || twin.admitted && !out.admitted {
			out = twin
		}
	default:
		out = p.perform(ctx, client, p.anyStore(), in)
	}
	if out.unknown || !out.admitted {
		p.perform(ctx, client, p.anyStore(), input{kind: view})
		return
	}
	if p.roll(4) == 0 {
		return
	}
	in.kind, in.sequence = cancel, out.sequence
	var group sync.WaitGroup
	first := p.roll(len(p.stores))
	for i := range 1 + p.roll(2) { // one or two processes cancel it
		store := p.stores[(first+i)%len(p.stores)]
		group.Go(func() { p.perform(ctx, client+i*(clients+1), store, in) })
	}
	group.Wait()
}

// check fails the test if the history is not linearizable. Now and then a history has too many writes of unknown
// outcome for an answer in time.
func check(t *testing.T, p *platform) porcupine.CheckResult {
	t.Helper()
	initial := state{limit: initialLimit, reservations: map[string]held{}}
	model := modelFrom(initial)
	const timeout = 5 * time.Second
	result := porcupine.CheckOperationsTimeout(model, p.all, timeout)
	if result == porcupine.Illegal {
		t.Errorf("the history of %d operations is not linearizable: %s", len(p.all), result)
		for _, o := range p.all {
			t.Logf("[%d, %d] client %d: %+v: %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
		}
	}
	return result
}

// checkRevisions holds every stored state against the first invariant: the reserved amounts stay within the limit,
// unless the limit shrank; then they do not grow.
func checkRevisions(t *testing.T, p *platform) {
	t.Helper()
	var before totals
	for _, revision := range p.memory.Revisions(acme) {
		restored, err := ledger.Restore(revision.Snapshot)
		if err != nil {
			t.Fatalf("revision %s: %v", revision.Version, err)
		}
		now := totalsOf(restored)
		if now.reserved > max(now.limit, before.limit, before.reserved) {
			t.Errorf("revision %s: %+v after %+v", revision.Version, now, before)
		}
		if now.sequence < before.sequence {
			t.Errorf("revision %s: the sequence fell from %d to %d", revision.Version, before.sequence, now.sequence)
		}
		before = now
	}
}
