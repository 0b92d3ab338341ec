package ledgerstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// admission, and no error.
func TestStockBehindFitsInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, ahead, behind := storagetest.New(), newInventory(widgets), newInventory(widgets)
		p := counting(t, memory, nil, ahead, 10)
		ahead.kind(widgets).Confirm(2, 0)
		ahead.show(widgets, "1", 2, 6)
		p.reserve(t, "other", 4)
		q := start(t, memory, nil)
		q.Inventory = behind
		behind.show(widgets, "2", 3, 3)
		behind.onCatchUp = func([]string) error {
			q.ExpectRelease(acme, "other") // the decision waits
			go func() {
				<-time.After(time.Second)
				if err := q.Cancel(t.Context(), acme, "other", 0); err != nil {
					t.Error(err)
				}
			}()
			return nil
		}

		q.admit(t, creating(widgets, "3", 1))

		expectCounted(t, "the reservation is stored", memory, counted{Observed: 6, Pending: 1})
	})
}

// A process without an inventory denies by what another process has observed.
func TestStockDenialWithoutInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := counting(t, memory, nil, objects, 10)
		objects.show(widgets, "1", 2, 8)
		p.admit(t, reservation("p/2", 2)) // stores the observation

		d, err := storagetest.Reserve(t.Context(), start(t, memory, nil), acme, reservation("p/3", 1))

		if err != nil || d.Code != ledger.Exceeded {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// A process that may not store observations yet ends all the same.
func TestStockFlushWithoutObservations(t *testing.T) {
	p := start(t, storagetest.New(), nil)
	p.Inventory, p.Replicas = newInventory(widgets), earlier{}
	p.limit(t, 10)
	p.changed("1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// A process that ends cannot record an admission from its slice before its inventory shows what others have observed.
// It waits for that, and does not try again without a pause.
func TestStockFlushWaitsForTheInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, objects, ahead := storagetest.New(), newInventory(widgets), newInventory(widgets)
		p := holdingStock(t, memory, nil, objects)
		if !p.escrowed("1", 3) {
			t.Fatal("not admitted from the slice")
		}
		ahead.show(widgets, "1", 5, 3)
		q := start(t, memory, nil)
		q.Inventory = ahead
		q.admit(t, creating(widgets, "2", 1))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, func() { objects.show(widgets, "1", 5, 3) })

		if err := p.Flush(ctx); err != nil {
			t.Error(err)
		}

		expectCounted(t, "the object counts once, and there is no slice", memory, counted{Observed: 3, Pending: 5})
	})
}

// earlier are replicas of which one is of an earlier version.
type earlier struct{}

func (earlier) IsPreferred(quotav1alpha1.ConsumerRef) bool { return true }
func (earlier) CanRead(int64) bool                         { return false }

// repeats that end, and must not end the later attempt.
func TestStockLaterAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, objects, connection := storagetest.New(), newInventory(widgets), &faulty{}
		p := holdingStock(t, memory, connection.faults, objects)
		failed := p.ReservationsFor("first")[0]
		var isAdmitted bool
		meanwhile := func() storagetest.Fault {
			isAdmitted = p.escrowed("first", 4)
			return storagetest.Overtaken
		}
		connection.next.Store(&meanwhile)

		p.EndPending(failed)
		<-time.After(30 * time.Second)

		if !isAdmitted {
			t.Fatal("the later attempt was not admitted from the slice")
		}
		expectCounted(t, "the later attempt may still succeed", memory, counted{Pending: 4})
	})
}

// While the ledger cannot have what exists, nothing more is admitted, also not from the slice.
func TestStockBeyondBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := holdingStock(t, memory, nil, objects)
		objects.show(widgets, "huge", 2, ledger.AmountMax)

		_, err := storagetest.Reserve(t.Context(), p, acme, creating(widgets, "1", 1))

		if err == nil {
			t.Error("a request was decided")
		}
		if p.escrowed("2", 1) {
			t.Error("a request was admitted from the slice")
		}
		objects.show(widgets, "huge", 3, 1)
		p.admit(t, creating(widgets, "3", 1))
		if !p.escrowed("4", 1) {
			t.Error("not admitted from the slice although everything fits again")
		}
	})
}

// Two replicas are each ahead of the other in one respect. Neither denies then.
func TestStockBehindInOneRespect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, ahead, behind := storagetest.New(), newInventory(), newInventory()
		ahead.list(widgets, ledger.Basis{Objects: 2, Policies: 1, Namespaces: 2}, objectOf("1", 2, 10))
		behind.list(widgets, ledger.Basis{Objects: 2, Policies: 2, Namespaces: 1}, objectOf("1", 2, 1))
		counting(t, memory, nil, ahead, 10).look(t)
		<-time.After(observed)
		q := start(t, memory, nil)
		q.Inventory = behind

		_, err := storagetest.Reserve(t.Context(), q, acme, creating(widgets, "2", 1))

		if err == nil || behind.refreshed == 0 {
			t.Errorf("got %v after %d refreshes, want an error after some", err, behind.refreshed)
		}
	})
}

// A request waits for the latest versions behind any of its attempts.
func TestStockRaiseKeepsVersions(t *testing.T) {
	tests := map[string]struct {
		first, second ledger.Amount
		versions      [2]ledger.Version
	}{
		"raised by earlier policies": {3, 6, [2]ledger.Version{2, 1}},
		"repeated by later policies": {3, 3, [2]ledger.Version{1, 2}},
	}
	for name, tt := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			memory, objects := storagetest.New(), newInventory(widgets)
			objects.show(widgets, "1", 2, 4)
			p := counting(t, memory, nil, objects, 10)
			first, second := updating(widgets, "1", 2, tt.first), updating(widgets, "1", 2, tt.second)
			first.Awaits.Policies, second.Awaits.Policies = tt.versions[0], tt.versions[1]
			first.Awaits.Namespaces, second.Awaits.Namespaces = tt.versions[0], tt.versions[1]

			p.admit(t, first)
			p.admit(t, second)

			expectCounted(t, "the larger growth", memory, counted{Observed: 4, Pending: tt.second})
			if a := memory.Snapshot(acme).Reservations[0].Awaits; a.Policies != 2 || a.Namespaces != 2 {
				t.Errorf("the request awaits %+v", a)
			}
		}))
	}
}

// attempt is recorded first.
func TestStockRecordRaises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, objects := storagetest.New(), newInventory(widgets)
		p := holdingStock(t, memory, nil, objects)
		from := len(memory.Revisions(acme))
		if !p.escrowed("1", 3) {
			t.Fatal("not admitted from the slice")
		}
		q := start(t, memory, nil)
		q.Inventory = newInventory(widgets)
		q.admit(t, creating(widgets, "1", 1))

		<-time.After(30 * time.Second)

		expectCounted(t, "the larger of both attempts", memory, counted{Pending: 7})
		expectAtLeast(t, memory, from, 7)
	})
}

// A ledger is outdated once it has not followed what exists for a while, and not while much happens.
func TestOutdatedLedgers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outage atomic.Bool
		p := start(t, storagetest.New(), func(context.Context, storagetest.Call) storagetest.Fault {
			if outage.Load() {
				return storagetest.Lost
			}
			return storagetest.None
		})
		go p.RunObservers(t.Context(), logr.Discard())
		p.limit(t, 1000)
		objects := p.Inventory.(*inventoryOf)
		outdated := func(after time.Duration) float64 {
			began := time.Now()
			for n := 1; time.Since(began) < after; n++ {
				uid := fmt.Sprint(time.Since(began).Milliseconds(), outage.Load())
				objects.show(widgets, uid, ledger.Version(time.Now().UnixMilli()), 1)
				p.ObjectChanged(types.UID(uid), []quotav1alpha1.ConsumerRef{acme})
				if n%10 == 0 {
					p.SweepStock() // the ledger cannot have the latest object yet
				}
				time.Sleep(500 * time.Millisecond)
			}
			return p.gauge(t, "bursar_ledgers_outdated")
		}

		if count := outdated(5 * time.Minute); count != 0 {
			t.Errorf("%v ledgers are outdated while much happens", count)
		}
		outage.Store(true)
		if count := outdated(time.Minute); count != 1 {
			t.Errorf("%v ledgers are outdated although none can be written", count)
		}
		outage.Store(false)
		if count := outdated(time.Minute); count != 0 {
			t.Errorf("%v ledgers are outdated after the outage", count)
		}
	})
}
