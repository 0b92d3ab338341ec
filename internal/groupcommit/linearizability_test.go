package groupcommit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	limit   = 6
	clients = 6
	lives   = 5
)

// input is the request of a caller: to add an amount or, if the amount is 0, to remove the name or, without a name, to
// return the sum.
type input struct {
	name   string
	amount int
}

// output is the answer. It is unknown if the caller got an error: the operation may take effect at any time, or never.
type output struct {
	isUnknown, isAdded bool
	sum                int
}

// model is the state as the answers must explain it.
var model = porcupine.Model{
	Init: func() any { return amounts{} },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(amounts), in.(input), out.(output)
		_, isThere := s[i.name]
		next := maps.Clone(s)
		switch {
		case i.name == "":
			return o.isUnknown || o.sum == s.sum(), s
		case i.amount == 0:
			delete(next, i.name)
			return true, next
		case isThere:
			return o.isUnknown || o.isAdded, s
		case s.sum()+i.amount > limit:
			return o.isUnknown || !o.isAdded, s
		}
		next[i.name] = i.amount
		return o.isUnknown || o.isAdded, next
	},
	Equal: func(a, b any) bool { return maps.Equal(a.(amounts), b.(amounts)) },
}

// history records requests and answers, with a clock only for their order.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	all   []porcupine.Operation
}

func (h *history) record(client int, in input, do func() (output, error)) output {
	call := h.clock.Add(1)
	out, err := do()
	end := h.clock.Add(1)
	if err != nil {
		out, end = output{isUnknown: true}, math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
	return out
}

// Several processes share a storage where calls fail, answers are lost, and writes arrive late. Processes are killed in
// the middle. There is one order of all operations, each at one instant of its call, that explains every answer.
func TestLinearizable(t *testing.T) {
	var undecided, unknown, operations int
	const rounds = 40
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{}
			synctest.Test(t, func(t *testing.T) { h.run(t, seed) })
			switch porcupine.CheckOperationsTimeout(model, h.all, 5*time.Second) {
			case porcupine.Illegal:
				t.Error("no order explains the answers")
				for _, o := range h.all {
					t.Logf("[%d, %d] client %d: %+v: %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
				}
			case porcupine.Unknown:
				undecided++
			}
			operations += len(h.all)
			for _, o := range h.all {
				if o.Output.(output).isUnknown {
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

// hosts run one process each, and a new one when it is killed.
type hosts struct {
	storage *storage
	faults  *faults
	mu      sync.Mutex
	running []*process
}

func (h *hosts) any() *process {
	roll := h.faults.roll(len(h.running))
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[roll]
}

// kill replaces a process. Late writes of the dead one arrive now.
func (h *hosts) kill(ctx context.Context) {
	roll := h.faults.roll(len(h.running))
	h.mu.Lock()
	dead := h.running[roll]
	h.running[roll] = newProcess(ctx, h.storage, h.faults)
	h.mu.Unlock()
	for _, write := range dead.kill() {
		write()
	}
}

func (h *history) run(t *testing.T, seed uint64) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	all := &hosts{storage: &storage{}, faults: &faults{random: rand.New(rand.NewPCG(seed, 0))}}
	for range 3 {
		all.running = append(all.running, newProcess(ctx, all.storage, all.faults))
	}
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			for life := range lives {
				h.live(ctx, client, fmt.Sprintf("%d.%d", client, life), all)
			}
		})
	}
	running.Go(func() {
		for range lives {
			<-time.After(time.Duration(all.faults.roll(10)) * time.Millisecond)
			all.kill(ctx)
		}
	})
	running.Wait()
	if state, _ := all.storage.read(); state.sum() > limit {
		t.Errorf("%d of %d are stored", state.sum(), limit)
	}
}

// live adds a name, perhaps twice or without waiting for the answer, reads, and removes it again.
func (h *history) live(ctx context.Context, client int, name string, all *hosts) {
	in := input{name, 1 + all.faults.roll(3)}
	add := func(ctx context.Context) output {
		return h.record(client, in, func() (output, error) {
			isAdded, err := all.any().add(ctx, name, in.amount, limit)
			return output{isAdded: isAdded}, err
		})
	}
	hasty, leave := context.WithTimeout(ctx, time.Duration(all.faults.roll(20))*time.Millisecond)
	add(hasty)
	leave()
	add(ctx)
	h.record(client, input{}, func() (output, error) {
		l := &look{}
		err := all.any().group.Do(ctx, &Operation[amounts]{Decision: l})
		if err != nil {
			return output{}, err // l belongs to the group
		}
		return output{sum: l.sum}, nil
	})
	if all.faults.roll(4) == 0 {
		return
	}
	h.record(client, input{name: name}, func() (output, error) {
		return output{}, all.any().group.Do(ctx, &Operation[amounts]{Decision: &removal{name: name}})
	})
}
