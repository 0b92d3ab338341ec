package groupcommit

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// amounts are the state in these tests: amounts by name.
type amounts map[string]int

func (a amounts) sum() (sum int) {
	for _, amount := range a {
		sum += amount
	}
	return sum
}

// storage is linearizable, and never fails. Processes reach it through a connection.
type storage struct {
	mu      sync.Mutex
	version int
	stored  amounts
}

func (s *storage) read() (amounts, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.stored), s.version
}

// write stores a state if the version is as expected.
func (s *storage) write(state amounts, expected int) (version int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != expected {
		return 0, errConflict
	}
	s.version++
	s.stored = state
	return s.version, nil
}

var (
	errConflict = errors.New("another version is stored")
	errBroken   = errors.New("the connection broke")
	errTooLarge = errors.New("the state is too large")
)

// faults decides how long calls take, and which of them go wrong.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (f *faults) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// process has a group, and dies when it is killed.
type process struct {
	*storage
	group   *Group[amounts]
	faults  *faults
	isDead  atomic.Bool
	sumMax  int // the largest sum, unless 0
	version int
	copied  amounts
	isFresh bool
	unknown int

	late []func() // writes that arrive only when the process is dead, under the lock of storage
	// reads and writes count calls, and batches are how many operations each write acknowledged.
	reads           atomic.Int64
	writes          int
	batches         []int
	onLoad, onWrite func()
}

func newProcess(ctx context.Context, s *storage, f *faults) *process {
	p := &process{storage: s, faults: f}
	p.group = New(ctx, "the state", p)
	return p
}

// kill makes every call fail from now on, and returns the writes on their way.
func (p *process) kill() (late []func()) {
	p.isDead.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late
}

// fails takes some time, and reports whether a call fails before it reaches storage, and whether its answer is lost.
func (p *process) fails() (isLost, isUnanswered, isLate bool) {
	if p.faults == nil {
		return p.isDead.Load(), false, false
	}
	<-time.After(time.Duration(p.faults.roll(2000)) * time.Microsecond)
	roll := p.faults.roll(24)
	return roll == 0 || p.isDead.Load(), roll == 1, roll == 2
}

func (p *process) Load(_ []*Operation[amounts], attempt int) (amounts, error) {
	if attempt == 0 {
		p.isFresh, p.unknown = false, 0
	}
	if do := p.onLoad; do != nil {
		p.onLoad = nil
		do()
	}
	if p.copied != nil {
		return p.copied, nil
	}
	p.reads.Add(1)
	if isLost, _, _ := p.fails(); isLost {
		return nil, errBroken
	}
	p.copied, p.version = p.read()
	if p.copied == nil {
		p.copied = amounts{}
	}
	p.isFresh = true
	return p.copied, nil
}

func (p *process) Commit(state amounts, effects []Effect) error {
	switch {
	case slices.Contains(effects, Changed):
		return p.store(state, effects)
	case slices.Contains(effects, Unconfirmed) && !p.isFresh:
		if isLost, _, _ := p.fails(); isLost {
			return errBroken
		}
		if _, version := p.read(); version != p.version {
			p.copied = nil
			return ErrAgain
		}
		p.isFresh = true
	}
	return nil
}

func (p *process) store(state amounts, effects []Effect) error {
	p.writes++
	if p.onWrite != nil {
		p.onWrite()
	}
	isLost, isUnanswered, isLate := p.fails()
	written, expected := maps.Clone(state), p.version
	var err error
	switch {
	case p.sumMax > 0 && state.sum() > p.sumMax:
		p.copied = nil
		return Divisible(errTooLarge)
	case isLate:
		p.mu.Lock()
		p.late = append(p.late, func() { _, _ = p.write(written, expected) })
		p.mu.Unlock()
		err = errBroken
	case !isLost:
		p.version, err = p.write(written, expected)
	}
	if isLost || isUnanswered {
		err = errBroken
	}
	if err == nil {
		p.isFresh = true
		p.batches = append(p.batches, len(effects))
		return nil
	}
	p.copied = nil
	if p.unknown++; errors.Is(err, errConflict) || p.unknown < 3 {
		return ErrAgain
	}
	return err
}

func (p *process) Finished() {}

// addition adds an amount under a name unless the sum would exceed a limit. It does not add an existing name again.
type addition struct {
	name          string
	amount, limit int
	isAdded       bool
	postpones     bool // instead of a denial
	committed     int
}

func (a *addition) Apply(state amounts) Effect {
	if _, a.isAdded = state[a.name]; a.isAdded {
		return Unconfirmed
	}
	if state.sum()+a.amount > a.limit {
		if a.postpones {
			return Postponed
		}
		return Unconfirmed
	}
	state[a.name], a.isAdded = a.amount, true
	return Changed
}

func (a *addition) Committed(Effect) { a.committed++ }

// removal removes a name.
type removal struct {
	name      string
	committed int
}

func (r *removal) Apply(state amounts) Effect {
	if _, isThere := state[r.name]; !isThere {
		return Unconfirmed
	}
	delete(state, r.name)
	return Changed
}

func (r *removal) Committed(Effect) { r.committed++ }

// look reads the sum.
type look struct{ sum int }

func (l *look) Apply(state amounts) Effect {
	l.sum = state.sum()
	return Unconfirmed
}

func (l *look) Committed(Effect) {}

// waiter postpones itself the first time.
type waiter struct {
	look
	onApply   func()
	isDecided bool
}

func (w *waiter) Apply(amounts) Effect {
	if w.isDecided {
		return Nothing
	}
	if w.isDecided = true; w.onApply != nil {
		w.onApply()
	}
	return Postponed
}
