package ledgerstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// What another process wrote is found although it could not be read at first, whichever process keeps the ledger.
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
				p.Observe(ledgerName, revisions[len(revisions)-1].Version)
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

// WasListed distinguishes a ledger that was written after the list from an unchanged one.
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

func (p preference) IsPreferred(quotav1alpha1.ConsumerRef) bool { return bool(p) }
