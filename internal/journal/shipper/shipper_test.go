package shipper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bursar/bursar/internal/ledger"
)

// delay is the delay of the standalone server.
const delay = 250 * time.Millisecond

func works(int) fault { return none }

// failsUntil fails the first appends.
func failsUntil(attempts int, f fault) func(int) fault {
	return func(attempt int) fault {
		if attempt < attempts {
			return f
		}
		return none
	}
}

// run runs a shipper in the time of the test, and closes its sink after the test function.
func run(t *testing.T, dir string, faults func(int) fault, test func(*testing.T, *ledgers, *sink)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		b, s := open(t, dir, faults)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.shipper.Run(ctx) }()
		test(t, b, s)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := b.shipper.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBatches(t *testing.T) {
	for name, test := range map[string]struct {
		takes []int64 // sizes
		delay time.Duration
		want  []int
	}{
		"what comes within the delay is stored together":    {takes: []int64{1, 2, 1}, delay: delay, want: []int{4}},
		"a full batch is stored at once":                    {takes: []int64{100, batchMax - 100}, want: []int{batchMax}},
		"more than a batch is stored in batches":            {takes: []int64{2*batchMax + 3}, want: []int{batchMax, batchMax, 3}},
		"less than a batch waits":                           {takes: []int64{batchMax - 1}, delay: delay - time.Millisecond},
		"more entries than may wait are taken if none wait": {takes: []int64{waitingMax + 1}, want: slicesOf(waitingMax + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run(t, dir, works, func(t *testing.T, b *ledgers, s *sink) {
				var last int64
				for _, n := range test.takes {
					if !b.add("acme", numbered(last+1, last+n)) {
						t.Errorf("%d entries were not taken", n)
					}
					last += n
					synctest.Wait()
				}
				time.Sleep(test.delay) // of the test's own clock
				synctest.Wait()
				if diff := cmp.Diff(test.want, s.appended()); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// slicesOf returns the sizes of the batches for so many entries.
func slicesOf(entries int) []int {
	var sizes []int
	for ; entries > 0; entries -= batchMax {
		sizes = append(sizes, min(entries, batchMax))
	}
	return sizes
}

// TestRetry has appends fail in each way. The sink stores each entry once, and only then informs the ledgers.
func TestRetry(t *testing.T) {
	for name, f := range map[string]fault{"nothing is stored": lost, "half is stored": half, "the answer is lost": unanswered, "the sink is stuck": stuck} {
		t.Run(name, func(t *testing.T) {
			const failures = 12
			dir := t.TempDir()
			run(t, dir, failsUntil(failures, f), func(t *testing.T, b *ledgers, s *sink) {
				b.add("acme", numbered(1, 10))
				time.Sleep(time.Second)
				b.add("acme", numbered(11, 12))
				b.add("other", numbered(1, 3))
				if left := b.left(); left != 15 {
					t.Errorf("the store was informed, and has %d entries left", left)
				}
				if age := b.shipper.oldestAge(); age != time.Second {
					t.Errorf("the oldest entry has waited for %s", age)
				}
				began := time.Now()
				for b.left() > 0 && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
				}
				if got := testutil.ToFloat64(b.shipper.metrics.failures); got != failures {
					t.Errorf("%v failures are counted", got)
				}
				if got := testutil.ToFloat64(b.shipper.metrics.stored); got != 15 {
					t.Errorf("%v stored entries are counted", got)
				}
				if took, most := time.Since(began), failures*(retryMax*2+appendTimeout); took > most {
					t.Errorf("%d failures took %s", failures, took)
				}
				if s.attempts() != failures+2 {
					t.Errorf("the entries were appended %d times", s.attempts())
				}
			})
			want := map[string][]int64{"acme": sequences(1, 12), "other": sequences(1, 3)}
			if diff := cmp.Diff(want, read(t, dir)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFull has the sink stand still until the shipper takes no entry. Once it works, the shipper asks for the declined
// entries and stores them.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, failsUntil(1, stuck), func(t *testing.T, b *ledgers, s *sink) {
		if !b.add("acme", numbered(1, waitingMax)) {
			t.Fatal("the entries were not taken")
		}
		for name, n := range map[string]int64{"acme": waitingMax, "late": 0, "later": 0} {
			if b.add(name, numbered(n+1, n+2)) {
				t.Errorf("entries of %s were taken beyond the bound", name)
			}
		}
		if got := testutil.ToFloat64(b.shipper.metrics.waiting); got != waitingMax {
			t.Errorf("%v entries wait", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := b.left(); left > 0 {
			t.Errorf("%d entries are not stored", left)
		}
		for c, times := range b.asked {
			if times != 1 {
				t.Errorf("%s was asked %d times", c.Name, times)
			}
		}
		if len(b.asked) != 3 {
			t.Errorf("%d consumers were asked", len(b.asked))
		}
		if s.attempts() < waitingMax/batchMax {
			t.Errorf("%d appends", s.attempts())
		}
	})
	want := map[string][]int64{"acme": sequences(1, waitingMax+2), "late": sequences(1, 2), "later": sequences(1, 2)}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestTakeAgain offers the same changes again, while they wait and after the sink has them.
func TestTakeAgain(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, failsUntil(1, stuck), func(t *testing.T, b *ledgers, s *sink) {
		opening := &ledger.Opening{Sequence: 9, At: 9, Lost: 3}
		take := func(last int64) { b.shipper.Take(consumer("acme"), opening, numbered(10, last)) }
		take(20)
		time.Sleep(time.Second) // an append hangs
		take(20)
		take(22)
		if waiting := b.shipper.count(); waiting != 14 {
			t.Errorf("%d entries wait", waiting)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		take(23)
		time.Sleep(delay)
		synctest.Wait()
		if diff := cmp.Diff([]int{12, 2, 15}, s.appended()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if len(b.shipper.latest) > 0 {
			t.Errorf("it keeps the consumers %v", b.shipper.latest)
		}
	})
	if diff := cmp.Diff(map[string][]int64{"acme": sequences(9, 23)}, read(t, dir)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestFlush stores the waiting entries at the end, or gives up in time if the sink does not work.
func TestFlush(t *testing.T) {
	const bound = 5 * time.Second
	for name, test := range map[string]struct {
		faults func(int) fault
		want   int64
	}{
		"the sink works":           {faults: works, want: 3},
		"the sink fails once":      {faults: failsUntil(1, lost), want: 3},
		"the sink fails":           {faults: failsUntil(1e6, lost)},
		"the sink is stuck":        {faults: failsUntil(1e6, stuck)},
		"the sink recovers in Run": {faults: failsUntil(2, stuck)},
	} {
		for isRunning, when := range map[bool]string{true: " while it runs", false: " after it ran"} {
			t.Run(name+when, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					b, _ := open(t, dir, test.faults)
					running, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- b.shipper.Run(running) }()
					b.add("acme", numbered(1, 3))
					synctest.Wait()
					if isRunning {
						time.Sleep(delay)
						synctest.Wait()
					} else {
						stop()
						<-ended
					}
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					b.shipper.Flush(ctx)
					if took := time.Since(began); took > bound {
						t.Errorf("it took %s", took)
					}
					stop()
					if isRunning {
						<-ended
					}
					if err := b.shipper.Close(); err != nil {
						t.Error(err)
					}
					if got := b.sink.stored(consumer("acme")); got != test.want {
						t.Errorf("%d entries are stored, want %d", got, test.want)
					}
				})
			})
		}
	}
}

// TestRandomFaults has some consumers change beside each other, while the sink fails in every way and ledgers reload.
// The sink gets each entry.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			faults := rand.New(rand.NewPCG(seed, 1))
			dir, want := t.TempDir(), map[string][]int64{}
			var isConcluding atomic.Bool
			fails := func(int) fault {
				if isConcluding.Load() || faults.IntN(3) > 0 {
					return none
				}
				return fault(faults.IntN(5))
			}
			run(t, dir, fails, func(t *testing.T, b *ledgers, _ *sink) {
				for range 200 {
					name := fmt.Sprintf("consumer-%d", random.IntN(5))
					if random.IntN(10) == 0 {
						b.readAgain(name)
					}
					last := int64(len(want[name]))
					n := int64(1 + random.IntN(8)*random.IntN(40))
					b.add(name, numbered(last+1, last+n))
					want[name] = sequences(1, last+n)
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
				synctest.Wait()
				isConcluding.Store(true)
				time.Sleep(time.Hour)
				synctest.Wait()
				if left := b.left(); left > 0 {
					t.Errorf("%d entries are not stored", left)
				}
			})
			if diff := cmp.Diff(want, read(t, dir)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProof proves that a dead sink is known at the start, before there is anything to store, and that its error ends
// once it works, also without an entry.
func TestProof(t *testing.T) {
	var works atomic.Bool
	fault := func(int) fault {
		if works.Load() {
			return none
		}
		return lost
	}
	run(t, t.TempDir(), fault, func(t *testing.T, b *ledgers, s *sink) {
		synctest.Wait()
		if err := b.shipper.Failure(); !errors.Is(err, errDisk) {
			t.Errorf("at the start: got %v, want %v", err, errDisk)
		}
		if got := testutil.CollectAndCount(b.shipper.metrics.failing); got != 1 {
			t.Errorf("%d series for the error, want 1", got)
		}
		works.Store(true)
		time.Sleep(retryMax) // of the test's own clock
		synctest.Wait()
		if err := b.shipper.Failure(); err != nil || s.attempts() > 0 {
			t.Errorf("once the sink works: got %v after %d appends", err, s.attempts())
		}
		if got := testutil.CollectAndCount(b.shipper.metrics.failing); got != 0 {
			t.Errorf("%d series for the error, want none", got)
		}
	})
}
