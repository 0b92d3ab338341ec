package ledgerstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// Any replica, preferred or not, finds another process's write, although its first reads fail.
func TestObservedAlthoughReadsFail(t *testing.T) {
	for name, keeps := range map[string]bool{"keeper": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := storagetest.New()
				var outage atomic.Bool
				p := start(t, memory, func(context.Context, storagetest.Call) storagetest.Fault {
					if outage.Load() {
						return storagetest.Lost
					}
					return storagetest.None
				})
				p.Replicas = preference(keeps)
				p.limit(t, 10)
				start(t, memory, nil).reserve(t, ledgerstore.ObjectKey("policy", "object"), 1)
				revisions := memory.Revisions(acme)
				outage.Store(true)
				p.Observe(noticeOf(revisions[len(revisions)-1]))
				time.Sleep(time.Minute)
				outage.Store(false)
				time.Sleep(time.Minute)
				if got := p.ReservationsFor("object"); len(got) != 1 {
					t.Errorf("the other's reservation is not known: %v", got)
				}
			})
		})
	}
}

// WasListed distinguishes a ledger written after the list from an unchanged one.
func TestWasListed(t *testing.T) {
	p := start(t, storagetest.New(), nil)
	var ledgers [1]quotav1alpha1.ConsumerLedger
	ledgers[0].Name, ledgers[0].ResourceVersion = "quiet", "7"
	for version, want := range map[ledgerstore.Version]bool{"7": true, "8": false} {
		if err := p.Preload(t.Context(), ledgers[:]); err != nil {
			t.Fatal(err)
		}
		if p.WasListed("new", version) || p.WasListed("quiet", version) != want {
			t.Errorf("whether version %s was listed is not %t", version, want)
		}
	}
}

// preference is whether a process is the preferred one of every consumer.
type preference bool

func (p preference) CanRead(int64) bool { return true }

func (p preference) IsPreferred(quotav1alpha1.ConsumerRef) bool { return bool(p) }

// Another replica than the preferred one learns of the work on a ledger only from notices.
func TestOthersLeaveTheLedgerUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		for i := range 60 {
			key := ledgerstore.ObjectKey("policy", fmt.Sprint("object", i))
			w.preferred.reserve(t, key, 1)
			w.notify()
			cancel(t, w.preferred, key)
			time.Sleep(time.Second)
			w.notify()
		}
		if got := w.other.Calls(storagetest.Read) + w.other.Calls(storagetest.CurrentVersion); got != 0 {
			t.Errorf("the other replica read %d times, want never", got)
		}
		if w.told.Load() == 0 {
			t.Error("subscribers of the other replica were told nothing")
		}
		before := w.other.Calls(storagetest.CurrentVersion)
		w.other.look(t)
		if reads, versions := w.other.Calls(storagetest.Read), w.other.Calls(storagetest.CurrentVersion)-before; reads != 1 || versions != 0 {
			t.Errorf("when it uses the ledger it reads it %d times and compares %d versions, want 1 and 0", reads, versions)
		}
	})
}

// Reservations left in flight by the preferred replica become known to the others, with the time of their appearance.
func TestOthersReadWhatIsLeft(t *testing.T) {
	tests := map[string]struct {
		reason    string
		meanwhile func(*testing.T, *watched)
		wantAfter time.Duration
	}{
		"stalled": {"the oldest reservation stays", func(*testing.T, *watched) {}, 8 * time.Second},
		"stalled and busy": {"the oldest reservation stays while others come and go", func(t *testing.T, w *watched) {
			for i := range 5 {
				time.Sleep(time.Second)
				w.preferred.reserve(t, ledgerstore.ObjectKey("policy", fmt.Sprint("other", i)), 1)
				w.notify()
			}
		}, 8 * time.Second},
		"preferred now": {"nobody else is there to do it", func(_ *testing.T, w *watched) { w.isPreferred.Store(true) }, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t)
				began := time.Now()
				w.preferred.reserve(t, ledgerstore.ObjectKey("policy", "object"), 1)
				w.notify()
				tt.meanwhile(t, w)
				for len(w.other.ReservationsFor("object")) == 0 && time.Since(began) < time.Minute {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(began); took < tt.wantAfter || took > tt.wantAfter+2*time.Second {
					t.Errorf("%s: known after %s, want %s", tt.reason, took, tt.wantAfter)
				}
				known, isKnown := w.other.ReservationOf(acme, ledgerstore.ObjectKey("policy", "object"))
				if since := known.KnownSince.Sub(began); isKnown && since > 6*time.Second {
					t.Errorf("%s: known since %s after it appeared", tt.reason, since)
				}
				cancel(t, w.preferred, ledgerstore.ObjectKey("policy", "object"))
			})
		})
	}
}

// A replica read an abandoned ledger. It forgets the reservations once they have ended.
func TestOthersForgetWhatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.preferred.reserve(t, "k", 1)
		w.notify()
		time.Sleep(10 * time.Second)
		if got := len(w.other.Reservations()); got != 1 {
			t.Fatalf("%d reservations are known, want 1", got)
		}
		cancel(t, w.preferred, "k")
		w.notify()
		time.Sleep(2 * time.Second)
		if got := len(w.other.Reservations()); got != 0 {
			t.Errorf("%d reservations are known after they ended", got)
		}
	})
}

// After a restore of storage from a backup, an earlier noticed version never comes.
func TestNoticedVersionNeverComes(t *testing.T) {
	w := newWatched(t)
	w.other.look(t)
	w.other.ObserveOf(acme, ledgerstore.Notice{Version: "999999", Unfinished: ledgerstore.NothingUnfinished})
	w.other.look(t)
	before := w.other.Calls(storagetest.Read)
	w.other.look(t)
	if got := w.other.Calls(storagetest.Read) - before; got != 0 {
		t.Errorf("it reads the ledger with each use: %d times", got)
	}
}

// watched are a preferred replica and another one with notices of its writes.
type watched struct {
	memory           *storagetest.Memory
	preferred, other *process
	isPreferred      atomic.Bool // the other one
	told             atomic.Int64
}

func (w *watched) CanRead(int64) bool { return true }

func (w *watched) IsPreferred(quotav1alpha1.ConsumerRef) bool { return w.isPreferred.Load() }

func newWatched(t *testing.T) *watched {
	w := &watched{memory: storagetest.New()}
	w.preferred, w.other = start(t, w.memory, nil), start(t, w.memory, nil)
	w.other.Replicas = w
	w.other.Subscribe(func(quotav1alpha1.ConsumerRef, ledgerstore.Change) { w.told.Add(1) })
	w.preferred.limit(t, 1000)
	w.other.ObserveOf(acme, noticeOf(w.latest()))
	return w
}

func (w *watched) latest() storagetest.Revision {
	all := w.memory.Revisions(acme)
	return all[len(all)-1]
}

// notify informs the other replica of the stored ledger.
func (w *watched) notify() { w.other.Observe(noticeOf(w.latest())) }
