// Package simulation runs Bursar in a world where a seed decides everything: the replicas, the users, the failures and
// their times. The ledger, the store, the engine, the webhook and the controllers are the real ones. Package
// controlplane simulates etcd, the API servers and the network, and the clock is the clock of a bubble of package
// synctest. The world holds every stored revision to the invariants. At the end, with no more failures, everything must
// agree.
//
// A seed repeats itself only where the Go runtime does: command simulate runs seeds like that. Natively the order of
// goroutines is another one each time.
package simulation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// World is the world of a seed. Create it with [New], in a bubble of package synctest.
type World struct {
	t       testing.TB
	shape   shape
	began   time.Time
	store   *controlplane.Store
	servers []*controlplane.Server
	hosts   []*host
	model   *model
	journal *archive
	users   sync.WaitGroup
	// processes are all started processes.
	processes sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	// trace gets a line for every event.
	trace io.Writer
	// isCalm is set while nothing fails.
	isCalm bool
	names  int
	// path is that of the webhook. It ends with the version of the declarations.
	path   string
	counts map[string]int
}

// New returns the world of a seed.
func New(t testing.TB, seed uint64) *World {
	w := &World{t: t, began: time.Now(), random: rand.New(rand.NewPCG(seed, 0)), trace: openTrace(t), isCalm: true, counts: map[string]int{}}
	w.shape = shapeOf(w.roll)
	w.model = newModel(w)
	w.journal = &archive{world: w, byConsumer: map[quotav1alpha1.ConsumerRef][]journal.Entry{}}
	w.store = controlplane.NewStore(w.model)
	for range w.shape.servers {
		w.servers = append(w.servers, controlplane.NewServer(w.store, w))
	}
	for i := range w.shape.replicas {
		w.hosts = append(w.hosts, &host{World: w, number: i})
	}
	return w
}

// Run runs the world to its end, and reports every violation to the test.
func (w *World) Run() {
	w.note("the world is %+v", w.shape)
	w.declare()
	for _, h := range w.hosts {
		h.start()
	}
	w.settleDown("the standing claims are granted", w.standingIsGranted)
	if !w.t.Failed() {
		w.live()
		w.conclude()
	}
	for _, h := range w.hosts {
		h.kill()
	}
	w.processes.Wait()
}

// live lets users work and troubles happen.
func (w *World) live() {
	w.setCalm(false)
	ctx, stop := context.WithTimeout(w.t.Context(), w.shape.active)
	defer stop()
	for range w.shape.users {
		w.users.Go(func() { w.use(ctx) })
	}
	w.users.Go(func() { w.disturb(ctx) })
	w.users.Wait()
}

// roll returns a number below n.
func (w *World) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// upTo returns a time up to a bound. No two are the same, so few events happen at the same time.
func (w *World) upTo(bound time.Duration) time.Duration { return time.Duration(1 + w.roll(int(bound))) }

// Lag implements [controlplane.Lag].
func (w *World) Lag() time.Duration {
	if w.calm() {
		return w.upTo(5 * time.Millisecond)
	}
	return w.upTo(w.shape.lag)
}

// Bookmark implements [controlplane.Lag]. API servers send a bookmark every minute, and a world is shorter.
func (w *World) Bookmark() time.Duration { return w.upTo(20 * time.Second) }

func (w *World) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isCalm
}

func (w *World) setCalm(calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCalm = calm
}

// route is the way of one process to the API servers. Its requests and watches go to the same server until that ends,
// as those of a process with one connection do.
type route struct {
	*World

	mu     sync.Mutex
	server *controlplane.Server
}

func (r *route) choose() *controlplane.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil || r.server.IsDown() {
		r.server = r.servers[r.roll(len(r.servers))]
	}
	return r.server
}

// FateOf implements [controlplane.Network].
func (r *route) FateOf(*http.Request) controlplane.Fate {
	w, server := r.World, r.choose()
	if w.calm() {
		return controlplane.Fate{Server: server, Before: w.upTo(time.Millisecond), After: w.upTo(time.Millisecond)}
	}
	fate := controlplane.Fate{Server: server, Before: w.upTo(w.shape.latency), After: w.upTo(w.shape.latency)}
	if w.shape.faults > 0 && w.roll(w.shape.faults) == 0 {
		fate.Outcome = []controlplane.Outcome{controlplane.Lost, controlplane.Unanswered, controlplane.Late}[w.roll(3)]
		fate.Delay = w.upTo(lateMax)
	}
	return fate
}

// openTrace returns the standard output if TRACE is 1, and a file without content otherwise. Both take the same memory:
// its addresses order maps by pointers. Otherwise a seed would be another world with a trace.
func openTrace(t testing.TB) io.Writer {
	none, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = none.Close() })
	if os.Getenv("TRACE") == "1" {
		return os.Stdout
	}
	return none
}

// note adds a line to the trace.
func (w *World) note(format string, args ...any) {
	_, _ = fmt.Fprintf(w.trace, "%8.3fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// count counts an event.
func (w *World) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// Counts returns the number of each event.
func (w *World) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// pause waits, and reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
