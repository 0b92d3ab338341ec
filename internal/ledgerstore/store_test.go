package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

const resourceType = "widgets"

var acme = quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}

func newStore(t testing.TB, storage Storage) *Store {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return New(ctx, storage)
}

func setLimit(t testing.TB, s *Store, limit ledger.Amount) {
	t.Helper()
	err := s.SetGrants(t.Context(), acme, func(context.Context) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "grant", Name: "grant", Allowances: []ledger.Allowance{{ResourceType: resourceType, Amount: limit}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func reservation(key string) ledger.Reservation {
	return ledger.Reservation{Key: key, Charges: []ledger.Charge{{ResourceType: resourceType, Amount: 1}}}
}

func reserve(t testing.TB, s *Store, key string) ledger.Decision {
	t.Helper()
	decision, err := s.Reserve(t.Context(), acme, reservation(key))
	if err != nil {
		t.Fatalf("reserve %s: %v", key, err)
	}
	return decision
}

func want(t testing.TB, decision ledger.Decision, code ledger.Code) {
	t.Helper()
	if decision.Code != code {
		t.Fatalf("the decision is %s, want %s", decision.Code, code)
	}
}

// holding is a granted claim made from a reservation.
func holding(uid, key string, sequence int64) *Holding {
	return &Holding{ClaimUID: uid, Key: key, Sequence: sequence, Granted: true, Charges: reservation(key).Charges}
}

func account(t testing.TB, s *Store) (a ledger.Account) {
	t.Helper()
	if err := s.View(t.Context(), acme, func(books *ledger.Ledger) { a = books.Account(resourceType) }); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDenialWritesNothing(t *testing.T) {
	m := &memory{}
	s := newStore(t, m)
	setLimit(t, s, 0)
	before := m.writes()
	want(t, reserve(t, s, "p/1"), ledger.Exceeded)
	if after := m.writes(); after != before {
		t.Errorf("a denial made %d writes", after-before)
	}
}

func TestDenialIsDecidedOnCurrentBooks(t *testing.T) {
	m := &memory{}
	here, there := newStore(t, m), newStore(t, m)
	setLimit(t, here, 1)
	first := reserve(t, here, "p/1")
	want(t, reserve(t, here, "p/2"), ledger.Exceeded)
	// Another process gives the capacity back, unseen by this one.
	if err := there.Cancel(t.Context(), acme, "p/1", first.Sequence); err != nil {
		t.Fatal(err)
	}
	want(t, reserve(t, here, "p/2"), ledger.Admitted)
	want(t, reserve(t, there, "p/3"), ledger.Exceeded)
}

func TestUnknownOutcomes(t *testing.T) {
	tests := map[string]struct {
		reason string
		after  bool
		err    error
	}{
		"not carried out":        {"the write is repeated", false, errInjected},
		"carried out, no answer": {"reading tells that it took effect", true, errInjected},
		"conflict":               {"the batch is decided anew", false, ErrConflict},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			s := newStore(t, m)
			setLimit(t, s, 5)
			m.failNow(tt.after, tt.err)
			want(t, reserve(t, s, "p/1"), ledger.Admitted)
			if got := len(m.stored().Reservations); got != 1 {
				t.Errorf("%s: %d reservations are stored, want 1", tt.reason, got)
			}
		})
	}
}

func TestRejectedWriteChangesNothing(t *testing.T) {
	m := &memory{}
	s := newStore(t, m)
	setLimit(t, s, 5)
	m.failNow(false, &RejectedError{Err: errInjected})
	if _, err := s.Reserve(t.Context(), acme, reservation("p/1")); !errors.Is(err, errInjected) {
		t.Fatalf("got %v, want the rejection", err)
	}
	if a := account(t, s); a.Reserved != 0 {
		t.Errorf("%d are reserved after a rejected write", a.Reserved)
	}
	want(t, reserve(t, s, "p/1"), ledger.Admitted)
}

func TestReserveIsOncePerKey(t *testing.T) {
	s := newStore(t, &memory{})
	setLimit(t, s, 1)
	first, again := reserve(t, s, "p/1"), reserve(t, s, "p/1")
	want(t, again, ledger.Admitted)
	if first.Sequence != again.Sequence {
		t.Errorf("the sequences are %d and %d, want one", first.Sequence, again.Sequence)
	}
}

func TestLifeOfACharge(t *testing.T) {
	m := &memory{}
	s := newStore(t, m)
	setLimit(t, s, 1)
	decision := reserve(t, s, "p/1")
	if got := s.ReservationsFor("1"); len(got) != 1 || got[0].Sequence != decision.Sequence {
		t.Errorf("reservations of the object are %+v, want the one", got)
	}
	s.Settle(acme, "p/1", decision.Sequence)
	if a := account(t, s); a.Used != 1 || a.Reserved != 0 || a.Claims != 1 {
		t.Errorf("after settling: %+v", a)
	}
	for range 3 { // replaying a release changes nothing
		drifted, err := s.Release(t.Context(), acme, func(context.Context) (*Holding, error) { return holding("c1", "p/1", decision.Sequence), nil })
		if err != nil || drifted {
			t.Fatalf("release: drifted %t, %v", drifted, err)
		}
	}
	if a := account(t, s); a.Used != 0 || a.Claims != 0 {
		t.Errorf("after the release: %+v", a)
	}
	s.Forget(acme, "c1")
	reserve(t, s, "p/2")
	if got := m.stored().Released; len(got) != 0 {
		t.Errorf("released claims are still recorded: %v", got)
	}
}

func TestReleaseOfWhatWasNeverCharged(t *testing.T) {
	s := newStore(t, &memory{})
	setLimit(t, s, 1)
	drifted, err := s.Release(t.Context(), acme, func(context.Context) (*Holding, error) { return holding("c1", "p/1", 1), nil })
	if err != nil || !drifted {
		t.Errorf("drifted %t, %v; want drift to be reported", drifted, err)
	}
	if a := account(t, s); a.Used != 0 {
		t.Errorf("the books say %+v", a)
	}
}

// TestTwoProcessesReleaseOneClaim lets both verify that the claim exists before either acts,
// and the first finish and forget before the second goes on.
func TestTwoProcessesReleaseOneClaim(t *testing.T) {
	m := &memory{}
	fast, slow := newStore(t, m), newStore(t, m)
	setLimit(t, fast, 5)
	for n := range 2 {
		key := fmt.Sprintf("p/%d", n)
		fast.Settle(acme, key, reserve(t, fast, key).Sequence)
	}
	account(t, fast)
	account(t, slow) // both hold the books in memory

	verified, goOn, exists := make(chan struct{}), make(chan struct{}), true
	var once sync.Once
	done := make(chan error, 1)
	go func() {
		_, err := slow.Release(context.Background(), acme, func(context.Context) (*Holding, error) {
			if !exists {
				return nil, nil
			}
			h := holding("c0", "p/0", 1)
			once.Do(func() { close(verified); <-goOn })
			return h, nil
		})
		done <- err
	}()
	<-verified
	if _, err := fast.Release(t.Context(), acme, func(context.Context) (*Holding, error) { return holding("c0", "p/0", 1), nil }); err != nil {
		t.Fatal(err)
	}
	exists = false
	fast.Forget(acme, "c0")
	reserve(t, fast, "p/9") // carries the forgetting along
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if a := account(t, fast); a.Used != 1 {
		t.Errorf("%d are used, want 1: the claim was released twice", a.Used)
	}
}

func TestDenialWaitsForReleases(t *testing.T) {
	s := newStore(t, &memory{})
	setLimit(t, s, 1)
	first := reserve(t, s, "p/1")
	s.ExpectRelease(acme, "p/1")
	decided := make(chan ledger.Decision, 1)
	go func() {
		decision, _ := s.Reserve(context.Background(), acme, reservation("p/2"))
		decided <- decision
	}()
	if err := s.Cancel(t.Context(), acme, "p/1", first.Sequence); err != nil {
		t.Fatal(err)
	}
	s.ReleaseDone(acme, "p/1")
	want(t, <-decided, ledger.Admitted)
	s.ExpectRelease(acme, "never")
	begin := time.Now()
	want(t, reserve(t, s, "p/3"), ledger.Exceeded)
	if waited := time.Since(begin); waited < releasePatience {
		t.Errorf("it was refused after %s, before its patience ended", waited)
	}
}

func TestAbandonedCallersReserveNothing(t *testing.T) {
	m := &memory{}
	s := newStore(t, m)
	setLimit(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Reserve(ctx, acme, reservation("p/1")); err == nil {
		t.Fatal("a caller who has left was answered")
	}
	want(t, reserve(t, s, "p/2"), ledger.Admitted)
}

func TestRestartKnowsWhatIsInFlight(t *testing.T) {
	m := &memory{}
	before := newStore(t, m)
	setLimit(t, before, 3)
	reserve(t, before, ObjectKey("policy", "object"))
	after := newStore(t, m)
	if _, err := after.Check(t.Context(), acme, []ledger.Reservation{reservation("x")}); err != nil {
		t.Fatal(err)
	}
	if got := after.ReservationsFor("object"); len(got) != 1 {
		t.Errorf("%d reservations are known after a restart, want 1", len(got))
	}
}

// TestManyProcessesUnderFaults lets three processes reserve, settle, release and cancel at once
// on storage that fails and leaves outcomes unknown. At no stored revision is the limit passed,
// and at the end the books say what was acknowledged.
func TestManyProcessesUnderFaults(t *testing.T) {
	const limit, workers, rounds = 7, 6, 150
	for seed := range uint64(4) {
		m := &memory{}
		stores := []*Store{newStore(t, m), newStore(t, m), newStore(t, m)}
		setLimit(t, stores[0], limit)
		m.mu.Lock()
		m.failOften(seed + 1)
		m.mu.Unlock()
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				s := stores[worker%len(stores)]
				for round := range rounds {
					live(t, s, fmt.Sprintf("p/%d-%d-%d", seed, worker, round), round%3)
				}
			})
		}
		group.Wait()
		m.mu.Lock()
		m.beforeWrite, m.afterWrite = nil, nil
		m.mu.Unlock()
		// What was deferred is written, also what fails at first.
		eventually(t, func() bool { return len(m.stored().Reservations) == 0 && len(m.stored().Released) == 0 })
		for revision, books := range m.revisions {
			var sum ledger.Amount
			for _, used := range books.Used {
				sum += used.Amount
			}
			for _, r := range books.Reservations {
				sum += r.Charges[0].Amount
			}
			if sum > limit {
				t.Fatalf("seed %d: revision %d holds %d, more than the limit of %d", seed, revision, sum, limit)
			}
		}
		if used := m.stored().Used; len(used) != 0 {
			t.Errorf("seed %d: everything was given back, and the books hold %+v", seed, used)
		}
	}
}

// live takes a reservation through one of the lives that it can have. Nothing of it stays.
func live(t *testing.T, s *Store, key string, ending int) {
	ctx := context.Background()
	var decision ledger.Decision
	retry(t, func() (err error) {
		decision, err = s.Reserve(ctx, acme, reservation(key))
		return err
	})
	if decision.Code != ledger.Admitted {
		return
	}
	if ending == 0 {
		retry(t, func() error { return s.Cancel(ctx, acme, key, decision.Sequence) })
		return
	}
	if ending == 1 {
		s.Settle(acme, key, decision.Sequence)
	}
	retry(t, func() error {
		_, err := s.Release(ctx, acme, func(context.Context) (*Holding, error) { return holding(key, key, decision.Sequence), nil })
		return err
	})
	s.Forget(acme, key)
}

// retry repeats what failed: nothing is lost by doing it again.
func retry(t *testing.T, f func() error) {
	for range 100 {
		if f() == nil {
			return
		}
	}
	t.Error("an operation failed 100 times")
}

func eventually(t *testing.T, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 20 s")
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newStore(b, &memory{})
			setLimit(b, s, ledger.AmountMax)
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						key := fmt.Sprintf("p/%d", n)
						decision, err := s.Reserve(context.Background(), acme, reservation(key))
						if err != nil {
							b.Error(err)
							return
						}
						s.Settle(acme, key, decision.Sequence)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}
