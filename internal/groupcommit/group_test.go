package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func (p *process) add(ctx context.Context, name string, amount, limit int) (bool, error) {
	a := &addition{name: name, amount: amount, limit: limit}
	err := p.group.Do(ctx, &Operation[amounts]{Decision: a})
	return err == nil && a.isAdded, err
}

// ask asks for the sum, and leaves housekeeping deferred.
func (p *process) ask(t *testing.T) {
	t.Helper()
	if err := p.group.Do(t.Context(), &Operation[amounts]{Decision: &look{}, LeavesDeferred: true}); err != nil {
		t.Error(err)
	}
}

// shutWrites has writes wait until the returned function is called.
func (p *process) shutWrites() (open func()) {
	shut := make(chan struct{})
	p.onWrite = func() { <-shut }
	return func() { close(shut) }
}

func TestOneWriteForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		open := p.shutWrites()
		done := make(chan error)
		add := func(name string) {
			go func() { _, err := p.add(t.Context(), name, 1, 100); done <- err }()
		}
		add("first")
		synctest.Wait() // its write is under way
		for i := range 20 {
			add(fmt.Sprint("next ", i))
		}
		synctest.Wait()
		open()
		for range 21 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if want := []int{1, 20}; !slices.Equal(p.batches, want) {
			t.Errorf("writes acknowledged %v operations, want %v", p.batches, want)
		}
	})
}

// A denial holds on the stored state, not on the copy of this process.
func TestDenialIsOnTheStoredState(t *testing.T) {
	s := &storage{}
	p, other := newProcess(t.Context(), s, nil), newProcess(t.Context(), s, nil)
	if isAdded, err := p.add(t.Context(), "a", 10, 10); !isAdded || err != nil {
		t.Fatal(isAdded, err)
	}
	if err := other.group.Do(t.Context(), &Operation[amounts]{Decision: &removal{name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if isAdded, err := p.add(t.Context(), "b", 10, 10); !isAdded || err != nil {
		t.Errorf("denied for what another process has removed: %t, %v", isAdded, err)
	}
}

func TestHousekeepingRidesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		kept := &addition{name: "kept", amount: 1, limit: 10}
		p.group.Defer(&Operation[amounts]{Decision: kept})
		if _, err := p.add(t.Context(), "a", 1, 10); err != nil {
			t.Fatal(err)
		}
		if p.writes != 1 || kept.committed != 1 {
			t.Errorf("%d writes, committed %d times; want one for both", p.writes, kept.committed)
		}
		p.group.Defer(&Operation[amounts]{Decision: &removal{name: "kept"}})
		time.Sleep(deferDelay + time.Second)
		if stored, _ := p.read(); stored["kept"] != 0 {
			t.Error("housekeeping waits for ever where nothing else is committed")
		}
	})
}

// Patient housekeeping waits for a commit, unless it piles up or an operation waits for the room that it makes.
func TestMaxDelay(t *testing.T) {
	const maxDelay = 5 * time.Second
	tests := map[string]struct {
		reason    string
		others    int // more patient operations
		meanwhile func(*testing.T, *process)
		wantAfter time.Duration
	}{
		"alone":    {"it is committed at its maximum delay", 0, func(*testing.T, *process) {}, maxDelay},
		"pile":     {"so many are committed at once", deferredMax, func(*testing.T, *process) {}, 0},
		"question": {"a question needs no commit", 0, func(t *testing.T, p *process) { p.ask(t) }, maxDelay},
		"change": {"it rides along", 0, func(t *testing.T, p *process) {
			if _, err := p.add(t.Context(), "other", 1, 1000); err != nil {
				t.Error(err)
			}
		}, 0},
		"impatient": {"it rides along with other housekeeping", 0, func(_ *testing.T, p *process) {
			p.group.Defer(&Operation[amounts]{Decision: &addition{name: "other", limit: 1000}})
		}, deferDelay},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t.Context(), &storage{}, nil)
				if _, err := p.add(t.Context(), "first", 1, 1000); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for i := range tt.others + 1 {
					p.group.Defer(&Operation[amounts]{Decision: &addition{name: fmt.Sprint(i), amount: 1, limit: 1000}, MaxDelay: maxDelay})
				}
				tt.meanwhile(t, p)
				for stored, _ := p.read(); stored["0"] == 0 && time.Since(began) < time.Minute; stored, _ = p.read() {
					synctest.Wait()
					if stored, _ := p.read(); stored["0"] == 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
				if took := time.Since(began); took != tt.wantAfter {
					t.Errorf("%s: committed after %s, want %s", tt.reason, took, tt.wantAfter)
				}
			})
		})
	}
}

func TestRoomIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		if _, err := p.add(t.Context(), "full", 10, 10); err != nil {
			t.Fatal(err)
		}
		began, done := time.Now(), make(chan error)
		go func() {
			done <- p.group.Do(t.Context(), &Operation[amounts]{
				Decision: &addition{name: "a", amount: 1, limit: 10, postpones: true}, Deadline: began.Add(time.Minute),
			})
		}()
		synctest.Wait()
		p.group.Defer(&Operation[amounts]{Decision: &removal{name: "full"}, MakesRoom: true, MaxDelay: 5 * time.Second})
		if err := <-done; err != nil || time.Since(began) != deferDelay {
			t.Errorf("it waited %s, %v; want %s", time.Since(began), err, deferDelay)
		}
	})
}

func TestHousekeepingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		p.kill()
		p.group.Defer(&Operation[amounts]{Decision: &addition{name: "a", amount: 1, limit: 10}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if reads := p.reads.Load(); reads < 5 || reads > 30 {
			t.Errorf("storage was asked %d times in a minute, want a few times", reads)
		}
		p.isDead.Store(false)
		time.Sleep(deferDelayMax + time.Second)
		if stored, _ := p.read(); stored["a"] != 1 {
			t.Error("it is not done although storage answers again")
		}
	})
}

func TestPostponed(t *testing.T) {
	tests := map[string]struct {
		reason    string
		meanwhile func(*process)
		wantAdded bool
		wantTook  time.Duration
	}{
		"nothing makes room": {"it is decided at its deadline", func(*process) {}, false, 3 * time.Second},
		"one makes room": {"it is decided again at once", func(p *process) {
			p.group.Submit(&Operation[amounts]{Decision: &removal{name: "full"}, MakesRoom: true})
		}, true, 0},
		"one changes something else": {"it stays postponed", func(p *process) {
			p.group.Submit(&Operation[amounts]{Decision: &addition{name: "other", limit: 10}})
		}, false, 3 * time.Second},
		"resumed": {"it is decided again, and postponed again", func(p *process) { p.group.Resume() }, false, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t.Context(), &storage{}, nil)
				if _, err := p.add(t.Context(), "full", 10, 10); err != nil {
					t.Fatal(err)
				}
				began, done := time.Now(), make(chan error, 1)
				late := &addition{name: "late", amount: 1, limit: 10, postpones: true}
				op := &Operation[amounts]{Decision: late, Deadline: began.Add(3 * time.Second)}
				go func() { done <- p.group.Do(t.Context(), op) }()
				synctest.Wait()
				tt.meanwhile(p)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); late.isAdded != tt.wantAdded || took != tt.wantTook {
					t.Errorf("%s: added %t after %s, want %t after %s", tt.reason, late.isAdded, took, tt.wantAdded, tt.wantTook)
				}
				if late.committed != 1 {
					t.Errorf("%s: committed %d times", tt.reason, late.committed)
				}
			})
		})
	}
}

// A resumption is not lost, whether it comes while the state is loaded or while the operation is decided.
func TestResumedWhileItIsDecided(t *testing.T) {
	tests := map[string]func(*process, *waiter){
		"loaded":  func(p *process, _ *waiter) { p.onLoad = p.group.Resume },
		"decided": func(p *process, w *waiter) { w.onApply = p.group.Resume },
	}
	for name, resume := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w, began := newProcess(t.Context(), &storage{}, nil), &waiter{}, time.Now()
				resume(p, w)
				op := &Operation[amounts]{Decision: w, Deadline: began.Add(time.Minute)}
				if err := p.group.Do(t.Context(), op); err != nil || time.Since(began) > 0 {
					t.Errorf("it waited %s, %v", time.Since(began), err)
				}
			})
		})
	}
}

// Storage rejects the sum of all operations. Only the operation too large by itself fails.
func TestDivisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		p.sumMax = 10
		if _, err := p.add(t.Context(), "standing", 8, 100); err != nil {
			t.Fatal(err)
		}
		open := p.shutWrites()
		done := make(chan error)
		do := func(op Operation[amounts]) { go func() { done <- p.group.Do(t.Context(), &op) }() }
		do(Operation[amounts]{Decision: &addition{name: "first", amount: 1, limit: 100}})
		synctest.Wait()
		do(Operation[amounts]{Decision: &addition{name: "fits once there is room", amount: 9, limit: 100}})
		do(Operation[amounts]{Decision: &addition{name: "too large", amount: 11, limit: 100}})
		do(Operation[amounts]{Decision: &removal{name: "standing"}, MakesRoom: true})
		synctest.Wait()
		open()
		var failed int
		for range 4 {
			if err := <-done; errors.Is(err, errTooLarge) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if stored, _ := p.read(); failed != 1 || stored["first"] != 1 || stored["fits once there is room"] != 9 {
			t.Errorf("%d failed, and stored is %v", failed, stored)
		}
	})
}

func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		open := p.shutWrites()
		for i, isApart := range []bool{false, false, false, true, true, false} {
			p.group.Submit(&Operation[amounts]{Decision: &addition{name: fmt.Sprint(i), limit: 1}, Apart: isApart})
			synctest.Wait()
		}
		open()
		synctest.Wait()
		if want := []int{1, 2, 2, 1}; !slices.Equal(p.batches, want) {
			t.Errorf("writes acknowledged %v operations, want %v", p.batches, want)
		}
	})
}

func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		open := p.shutWrites()
		p.group.Submit(&Operation[amounts]{Decision: &addition{name: "first", limit: 10}})
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := p.add(ctx, "left", 1, 10); done <- err }()
		synctest.Wait()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		open()
		synctest.Wait()
		if stored, _ := p.read(); stored["left"] != 0 {
			t.Error("an operation took effect that nobody waited for before it ran")
		}
	})
}

func TestCloseIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t.Context(), &storage{}, nil)
		if _, err := p.add(t.Context(), "a", 1, 10); err != nil {
			t.Fatal(err)
		}
		p.group.Defer(&Operation[amounts]{Decision: &removal{name: "a"}})
		if p.group.CloseIdle(0) {
			t.Error("it closed although housekeeping waits")
		}
		time.Sleep(time.Minute)
		if p.group.CloseIdle(2 * time.Minute) {
			t.Error("it closed before its time")
		}
		if !p.group.CloseIdle(30 * time.Second) {
			t.Error("it did not close")
		}
		if _, err := p.add(t.Context(), "b", 1, 10); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed group says %v", err)
		}
	})
}
