package ledgerstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// changing is a changeable preference.
type changing struct{ atomic.Bool }

func (c *changing) IsPreferred(quotav1alpha1.ConsumerRef) bool { return c.Load() }
func (*changing) CanRead(int64) bool                           { return true }

const journalDelay = 250 * time.Millisecond

// startRecording starts a process with a journal.
func (a *archive) startRecording(faults func(context.Context, storagetest.Call) storagetest.Fault) *process {
	return a.record(start(a.t, a.memory, faults), journalDelay)
}

// kill ends the process in the middle of everything.
func (p *process) kill() {
	p.Close()
	p.stop()
}

// TestRecordsReachTheJournal interrupts the way of a record to the journal, and changes nothing afterwards. The archive
// gets the record, and the ledger drops it.
func TestRecordsReachTheJournal(t *testing.T) {
	for name, interrupt := range map[string]func(*testing.T, *archive){
		"nothing interrupts it": func(t *testing.T, a *archive) {
			a.startRecording(nil).limit(t, 10)
		},
		"the answer to the write is lost": func(t *testing.T, a *archive) {
			a.startRecording(script(storagetest.Unanswered)).limit(t, 10)
		},
		"the process ends, and another starts": func(t *testing.T, a *archive) {
			p := a.startRecording(nil)
			p.limit(t, 10)
			p.kill()
			if err := a.startRecording(nil).Preload(t.Context(), listed(a.memory)); err != nil {
				t.Fatal(err)
			}
		},
		"another process is informed": func(t *testing.T, a *archive) {
			p, preferred := a.startRecording(nil), a.startRecording(nil)
			p.Replicas = preference(false)
			p.limit(t, 10)
			revisions := a.memory.Revisions(acme)
			preferred.Replicas = preference(true)
			preferred.ObserveOf(acme, noticeOf(revisions[len(revisions)-1]))
		},
		"the process that wrote becomes the preferred replica": func(t *testing.T, a *archive) {
			var replicas changing
			p := a.startRecording(nil)
			p.Replicas = &replicas
			p.limit(t, 10)
			time.Sleep(time.Hour)
			if len(a.sorted()) > 0 {
				t.Error("another replica than the preferred one offers records")
			}
			replicas.Store(true)
		},
		"the process that was informed becomes the preferred replica": func(t *testing.T, a *archive) {
			p, other := a.startRecording(nil), a.startRecording(nil)
			var replicas changing
			p.Replicas, other.Replicas = &replicas, preference(false)
			p.limit(t, 10)
			other.limit(t, 20)
			revisions := a.memory.Revisions(acme)
			p.ObserveOf(acme, noticeOf(revisions[len(revisions)-1]))
			time.Sleep(time.Minute)
			other.kill()
			replicas.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(t, storagetest.New(), 0)
				a.setReliable()
				interrupt(t, a)
				time.Sleep(time.Minute)
				a.check(false)
			})
		})
	}
}

// TestJournalBegins has ledgers with a history unknown to every journal.
func TestJournalBegins(t *testing.T) {
	for name, withoutJournal := range map[string]func(*testing.T, *archive){
		"an earlier version wrote it": func(t *testing.T, a *archive) {
			p := start(t, a.memory, nil)
			p.limit(t, 10)
			p.reserve(t, "k", 3)
		},
		"another process dropped its journal": func(t *testing.T, a *archive) {
			p := a.startRecording(nil)
			p.limit(t, 10)
			time.Sleep(time.Second)
			p.kill()
			start(t, a.memory, nil).reserve(t, "k", 3)
			time.Sleep(time.Second)
		},
		"another process drops its journal again and again": func(t *testing.T, a *archive) {
			p, other := a.startRecording(nil), start(t, a.memory, nil)
			p.limit(t, 10)
			p.reserve(t, "k", 3)
			for i := range 5 {
				key := fmt.Sprintf("k/%d", i)
				p.reserve(t, key, 1)
				cancel(t, other, key)
			}
			time.Sleep(time.Second)
			p.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(t, storagetest.New(), 0)
				a.setReliable()
				withoutJournal(t, a)
				before := len(a.sorted())
				p := a.startRecording(nil)
				p.reserve(t, "l", 2)
				time.Sleep(time.Minute)
				a.check(true)
				fresh := a.sorted()[before:]
				if len(fresh) != 2 || fresh[0].Kind != journal.Opened || fresh[1].Kind != journal.Admitted {
					t.Fatalf("recorded %+v, want the opening state and an admission", fresh)
				}
				opened := fresh[0].Opening
				if len(opened.Balances) != 1 || opened.Balances[0].Amount != 3 || len(opened.Limits) != 1 || opened.Limits[0].Amount != 10 {
					t.Errorf("opened with %+v", opened)
				}
			})
		})
	}
}

// TestJournalStandsStill changes a ledger until it has no room for unstored records. Requests go on, and the journal
// marks the gap.
func TestJournalStandsStill(t *testing.T) {
	for name, isKilled := range map[string]bool{"the process goes on": false, "the process ends": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(t, storagetest.New(), 0)
				a.setReliable()
				a.isStuck = true
				p := a.startRecording(nil)
				p.limit(t, 10)
				padding := strings.Repeat("x", ledger.SubjectBytesMax-100)
				for i := range 2 * ledger.JournalBytesMax / ledger.SubjectBytesMax {
					key := fmt.Sprintf("k/%d", i)
					r := ledger.Reservation{Key: key, Claim: padding, Charges: charges(1)}
					if d, err := storagetest.Reserve(t.Context(), p, acme, r); err != nil || d.Code != ledger.Admitted {
						t.Fatalf("reserve %s: %s, %v", key, d.Code, err)
					}
					cancel(t, p, key)
				}
				for _, revision := range a.memory.Revisions(acme) {
					if size, most := len(revision.Snapshot.Journal.Records), 2*ledger.JournalBytesMax/ledger.SubjectBytesMax; size > most {
						t.Fatalf("revision %s has %d records", revision.Version, size)
					}
				}
				p.reserve(t, "l", 2)
				if isKilled {
					p.kill()
					p = a.startRecording(nil)
				}
				a.setReliable()
				p.reserve(t, "m", 3)
				time.Sleep(2 * time.Minute)
				p.look(t)
				time.Sleep(2 * time.Minute)
				a.check(true)
				var lost int64
				var last int64
				for _, e := range a.sorted() {
					if e.Kind == journal.Opened {
						lost = e.Opening.Lost
					} else if e.Sequence != last+1 {
						t.Errorf("a gap between the entries %d and %d", last, e.Sequence)
					}
					last = e.Sequence
				}
				if isLost := lost > 0; isLost != isKilled { // while the process lives, its journal has the records dropped by the ledger
					t.Errorf("%d changes are lost", lost)
				}
			})
		})
	}
}
