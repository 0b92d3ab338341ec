package ledgerstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/escrow"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

const (
	worldSeeds   = 40
	worldHosts   = 3
	worldLimit   = 300
	worldUsed    = 20 // by one permanent claim
	worldClients = 12
	worldTime    = 6 * time.Minute
)

// world is a cluster without Kubernetes. Its objects appear some time after their admission, or never. Its replicas
// crash, stand still and disagree on the preferred one. Its connections have every fault.
type world struct {
	t       *testing.T
	memory  *storagetest.Memory
	archive *archive
	hosts   [worldHosts]*worldHost

	mu      sync.Mutex
	random  *rand.Rand
	objects map[string]*worldObject
	next    int
	// isConcluding keeps the existing objects.
	isConcluding bool
	// escrowed counts admissions from slices, and denied denials.
	escrowed, denied int
}

// worldObject is an object from its admission on.
type worldObject struct {
	amount ledger.Amount
	// mayAppear is until when it may appear.
	mayAppear time.Time
	exists    bool
	created   time.Time
	// claim is the sequence of its claim, once it has one.
	claim int64
	// isGone is true after the deletion, or once the object can no longer appear.
	isGone bool
}

// worldHost is a machine for one process after another.
type worldHost struct {
	*world
	// thinks is the index of the preferred replica in its opinion.
	thinks  atomic.Int32
	blocked atomic.Bool

	mu      sync.Mutex
	process *process
}

func (h *worldHost) IsPreferred(quotav1alpha1.ConsumerRef) bool { return h.hosts[h.thinks.Load()] == h }
func (h *worldHost) CanRead(int64) bool                         { return true }

func (h *worldHost) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

func TestEscrowUnderFaults(t *testing.T) {
	var escrowed, denied atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(worldSeeds) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := &world{t: t, memory: storagetest.New(), random: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*worldObject{}}
					w.archive = newArchive(t, w.memory, seed)
					w.run()
					escrowed.Add(int64(w.escrowed))
					denied.Add(int64(w.denied))
				})
			})
		}
	})
	t.Logf("%d admitted from slices, %d denied", escrowed.Load(), denied.Load())
	if escrowed.Load() < 1000 || denied.Load() < 1000 {
		t.Error("the seeds do not reach what they are for")
	}
}

func (w *world) run() {
	first := start(w.t, w.memory, nil)
	first.limit(w.t, worldLimit)
	first.use(w.t, "p/standing", worldUsed)
	for i := range w.hosts {
		w.hosts[i] = &worldHost{world: w}
		w.hosts[i].start()
	}
	ctx, stop := context.WithTimeout(w.t.Context(), worldTime)
	var running sync.WaitGroup
	for range worldClients {
		running.Go(func() { w.createAll(ctx) })
	}
	running.Go(func() { w.disturb(ctx) })
	for _, h := range w.hosts {
		running.Go(func() { h.work(ctx) })
	}
	running.Wait()
	stop()
	w.conclude()
}

func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// start starts a process on a host.
func (h *worldHost) start() {
	p := h.archive.record(start(h.t, h.memory, h.fault), 250*time.Millisecond)
	p.Replicas = h
	p.SetShare(2, 2)
	h.mu.Lock()
	h.process = p
	h.mu.Unlock()
}

func (h *worldHost) fault(ctx context.Context, _ storagetest.Call) storagetest.Fault {
	for h.blocked.Load() && ctx.Err() == nil {
		<-time.After(100 * time.Millisecond)
	}
	<-time.After(time.Duration(h.roll(20000)) * time.Microsecond)
	if h.roll(15) > 0 {
		return storagetest.None
	}
	fault := []storagetest.Fault{storagetest.Lost, storagetest.Unanswered, storagetest.Late}[h.roll(3)]
	if fault == storagetest.Late {
		time.AfterFunc(time.Duration(h.roll(4000))*time.Millisecond, h.current().Deliver)
	}
	return fault
}

// disturb kills and blocks hosts, moves the preference, and delivers late writes.
func (w *world) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		<-time.After(time.Duration(500+w.roll(8000)) * time.Millisecond)
		h := w.hosts[w.roll(worldHosts)]
		switch w.roll(4) {
		case 0:
			dead := h.current()
			dead.Close()
			dead.stop()
			time.AfterFunc(time.Duration(w.roll(5000))*time.Millisecond, dead.Deliver)
			<-time.After(time.Duration(w.roll(20000)) * time.Millisecond)
			h.start()
		case 1:
			h.blocked.Store(true)
			time.AfterFunc(time.Duration(w.roll(180))*time.Second, func() { h.blocked.Store(false) })
			w.prefer(w.roll(worldHosts))
		default:
			w.prefer(w.roll(worldHosts))
		}
	}
}

// prefer changes the preferred replica. A blocked host does not learn of it.
func (w *world) prefer(to int) {
	for _, h := range w.hosts {
		if !h.blocked.Load() {
			time.AfterFunc(time.Duration(w.roll(6000))*time.Millisecond, func() { h.thinks.Store(int32(to)) })
		}
	}
}

// createAll creates objects, one after the other, and deletes some of them.
func (w *world) createAll(ctx context.Context) {
	for ctx.Err() == nil {
		pause := 300
		if time.Since(time.Unix(0, 0))/time.Second%40 < 25 {
			pause = 8000
		}
		<-time.After(time.Duration(w.roll(pause)) * time.Millisecond)
		h := w.hosts[w.roll(worldHosts)]
		if h.blocked.Load() && w.roll(60) > 0 {
			continue
		}
		if w.roll(4) > 0 {
			h = w.hosts[h.thinks.Load()]
		}
		w.create(ctx, h)
	}
}

func (w *world) create(ctx context.Context, h *worldHost) {
	w.mu.Lock()
	w.next++
	key, amount := fmt.Sprintf("p/%d", w.next), ledger.Amount(1+w.random.IntN(2))
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 9*time.Second) // the timeout of the webhook
	defer cancel()
	began, p := time.Now(), h.current()
	most := w.demand()
	// From here on it may be in the ledger.
	o := &worldObject{amount: amount, mayAppear: began.Add(time.Minute)}
	w.mu.Lock()
	w.objects[key] = o
	w.mu.Unlock()
	isEscrowed := p.Escrow(acme, []ledger.Reservation{reservation(key, amount)}, ledgerstore.Spare{}, nil)
	if !isEscrowed {
		decision, err := storagetest.Reserve(ctx, p, acme, reservation(key, amount))
		if err != nil || decision.Code != ledger.Admitted {
			w.mu.Lock()
			o.mayAppear = time.Time{} // the reservation may exist all the same
			w.denied++
			w.mu.Unlock()
			if err == nil && most+amount <= worldLimit && w.demand() <= worldLimit {
				w.t.Errorf("%s: denied with at most %d and %d of %d in use", key, most, amount, worldLimit)
			}
			return
		}
	}
	delay := time.Duration(w.roll(50)) * time.Millisecond
	switch w.roll(200) {
	case 0:
		w.mu.Lock()
		o.mayAppear = time.Time{} // the create fails for another reason
		w.mu.Unlock()
		return
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
		delay = time.Duration(w.roll(50)) * time.Second
	}
	time.AfterFunc(delay, func() { w.appear(key, o, isEscrowed) })
}

func (w *world) appear(key string, o *worldObject, isEscrowed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().After(o.mayAppear) {
		return
	}
	o.exists, o.created = true, time.Now()
	if isEscrowed {
		w.escrowed++
	}
	var sum ledger.Amount = worldUsed
	for _, other := range w.objects {
		if other.exists {
			sum += other.amount
		}
	}
	if sum > worldLimit {
		w.t.Errorf("%s appeared, and objects of %d exist with a limit of %d", key, sum, worldLimit)
	}
	life := time.Duration(w.random.IntN(25)) * time.Second
	if w.random.IntN(8) == 0 {
		life *= 10
	}
	time.AfterFunc(life, func() { w.delete(o) })
}

func (w *world) delete(o *worldObject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isConcluding {
		o.exists, o.isGone = false, true
	}
}

// demand returns the largest possible usage now: the amounts of all objects except the certainly gone ones.
func (w *world) demand() ledger.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sum ledger.Amount = worldUsed
	for _, o := range w.objects {
		sum += o.amount
	}
	return sum
}

// work is the work of a replica's controllers.
func (h *worldHost) work(ctx context.Context) {
	recovered := time.Now()
	for ctx.Err() == nil {
		<-time.After(100 * time.Millisecond)
		p := h.current()
		h.follow(ctx, p)
		if h.IsPreferred(acme) && time.Since(recovered) > 5*time.Second {
			recovered = time.Now()
			c := &escrow.Controller{Store: p.Store, Adopter: adopter{h, p}}
			_ = c.Recover(ctx)
			_ = p.View(ctx, acme, func(*ledger.Ledger) {}) // as if informed
		}
	}
}

// follow makes claims of reservations with existing objects, ends those with deleted objects, and releases the claims
// of deleted objects.
func (h *worldHost) follow(ctx context.Context, p *process) {
	for _, r := range p.ReservationsOf(acme) {
		if r.IsUnrecorded || !r.IsOwn && (!h.IsPreferred(acme) || time.Since(r.KnownSince) < 10*time.Second) {
			continue
		}
		h.world.mu.Lock()
		o := h.objects[r.Key]
		if o != nil && o.claim != r.Sequence && p.IsWithdrawn(acme, o.claim) {
			o.claim = 0
		}
		isLate := time.Since(r.KnownSince) > p.ReservationLifetime
		isDone := o == nil || o.isGone && o.claim == 0 || isLate && !o.exists
		mayClaim := o != nil && o.exists && (o.claim == 0 || o.claim == r.Sequence)
		isSecond := o != nil && o.claim != 0 && o.claim != r.Sequence
		if mayClaim {
			o.claim = r.Sequence
		}
		mayClaim = mayClaim || o != nil && o.claim == r.Sequence
		h.world.mu.Unlock()
		switch {
		case mayClaim:
			p.Settle(acme, r.Key, r.Sequence)
		case isDone || isSecond:
			_ = p.Cancel(ctx, acme, r.Key, r.Sequence)
		}
	}
	if h.IsPreferred(acme) {
		h.releaseDeleted(ctx, p)
	}
}

func (h *worldHost) releaseDeleted(ctx context.Context, p *process) {
	h.world.mu.Lock()
	gone := map[string]*worldObject{}
	for key, o := range h.objects {
		if o.isGone && o.claim != 0 {
			gone[key] = o
		}
	}
	h.world.mu.Unlock()
	for key, o := range gone {
		_, err := p.Release(ctx, acme, key, func(context.Context) (*ledgerstore.ClaimCharges, error) {
			h.world.mu.Lock()
			defer h.world.mu.Unlock()
			if o.claim == 0 {
				return nil, nil //nolint:nilnil // as documented
			}
			return &ledgerstore.ClaimCharges{ClaimUID: key, Key: key, Sequence: o.claim, Granted: true, Charges: charges(o.amount)}, nil
		})
		if err != nil {
			return
		}
		h.world.mu.Lock()
		o.claim = 0
		delete(h.objects, key)
		h.world.mu.Unlock()
		p.Forget(acme, key)
	}
}

// adopter charges the objects without a claim for a process.
type adopter struct {
	*worldHost
	process *process
}

func (a adopter) AdoptSince(ctx context.Context, since time.Time) ([]string, error) {
	a.world.mu.Lock()
	missing := map[string]*worldObject{}
	for key, o := range a.objects {
		if o.exists && o.claim == 0 && o.created.After(since) {
			missing[key] = o
		}
	}
	a.world.mu.Unlock()
	for key, o := range missing {
		_, err := a.process.Apply(ctx, acme, ledgerstore.Request{Overdraft: true, IsForExisting: true, Verify: func(context.Context) ([]ledger.Reservation, error) {
			a.world.mu.Lock()
			defer a.world.mu.Unlock()
			if o.claim != 0 || !o.exists {
				return nil, nil
			}
			return []ledger.Reservation{reservation(key, o.amount)}, nil
		}})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// conclude lets everything end, and compares the ledger with the objects.
func (w *world) conclude() {
	w.mu.Lock()
	w.isConcluding = true
	w.mu.Unlock()
	<-time.After(10 * time.Second) // the latest changes of the preference
	for _, h := range w.hosts {
		h.blocked.Store(false)
		h.thinks.Store(0)
		h.current().Deliver()
	}
	w.archive.setReliable()
	ctx, stop := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer stop()
	var running sync.WaitGroup
	for _, h := range w.hosts {
		running.Go(func() { h.work(ctx) })
	}
	running.Wait()
	last := w.memory.Snapshot(acme)
	if len(last.Slices) > 0 || len(last.Reservations) > 0 {
		w.t.Errorf("at the end there are slices %v and reservations %v", last.Slices, last.Reservations)
	}
	var want ledger.Amount = worldUsed
	for key, o := range w.objects {
		if o.exists {
			want += o.amount
			if o.claim == 0 {
				w.t.Errorf("%s has no claim", key)
			}
		}
	}
	if s := summarize(w.t, last); s.Used != want {
		w.t.Errorf("%d are used, by objects of %d", s.Used, want)
	}
	for _, revision := range w.memory.Revisions(acme) {
		if s := summarize(w.t, revision.Snapshot); s.Used+s.Reserved > s.Limit {
			w.t.Errorf("revision %s: %d used and %d reserved of %d", revision.Version, s.Used, s.Reserved, s.Limit)
			break
		}
	}
	w.archive.check(false)
	for _, h := range w.hosts {
		h.current().stop()
	}
}
