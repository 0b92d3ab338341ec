package linearizability

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// history records requests and answers, with a clock for their order only.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	all   []porcupine.Operation
}

// record adds an operation, carried out by do. Its output counts as unknown if do fails.
func (h *history) record(client int, in input, do func(*output) error) output {
	var out output
	call := h.clock.Add(1)
	err := do(&out)
	end := h.clock.Add(1)
	if err != nil {
		out, end = output{unknown: true}, math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
	return out
}

func modelFrom(initial state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(s, in, out any) (bool, any) {
			ok, next := s.(state).step(in.(input), out.(output))
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	}
}
