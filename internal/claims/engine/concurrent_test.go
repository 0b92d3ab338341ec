package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// othersUse makes other objects use an amount of a consumer, so the test detects a wrong release from the ledger.
func (s *stage) othersUse(consumer quotav1alpha1.ConsumerRef, amount int64) {
	s.Helper()
	key := ledgerstore.ObjectKey("p", "others")
	_, err := s.store.Apply(s.Context(), consumer, ledgerstore.Request{
		Reservations: []ledger.Reservation{{Key: key, Charges: charges(amount), Claim: intent("").Encode()}}, Overdraft: true,
	})
	s.must(err)
	s.store.Settle(consumer, key, 0)
	synctest.Wait()
	time.Sleep(settling)
}

// wantFinally waits until there is nothing left to wait for, and compares the outcome.
func (s *stage) wantFinally(reason string, want ...string) {
	s.Helper()
	time.Sleep(settledAfter)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

// change updates the fleet while c runs, and lets c follow as far as it gets at once.
func (s *stage) change(c *lifecycle.Controller, base string, after *unstructured.Unstructured) {
	s.Helper()
	c.Engine.Expect(theFleet, base, nil)
	s.must(s.live.Tracker().Update(fleetResource, after, after.GetNamespace()))
	c.Engine.Modified(theFleet)
	synctest.Wait()
}

// The object goes away during its adoption. Its claim still comes, and the engine then cleans up the claim and its
// reservation.
func TestObjectGoesWhileItIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		c := s.run(nil, fleet("1", "acme", 5))
		synctest.Wait() // the object is watched
		if errs := c.Engine.Catalog.SetPolicy(fleets()); len(errs) > 0 {
			t.Fatal(errs)
		}
		isDeleted := false
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPost && !isDeleted {
				isDeleted = true
				// The request is on its way.
				s.must(s.metadata.Tracker().Delete(fleetResource, "ns", "a"))
				s.must(s.live.Tracker().Delete(fleetResource, "ns", "a"))
				synctest.Wait()
			}
			return false
		})
		_, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("1", "acme", 5))
		s.must(err)
		if !isDeleted {
			t.Fatal("the object was not adopted")
		}
		s.wantFinally("the use of others stays in the ledger", "acme uses 10, 0 in flight")
	})
}

// A change comes before the cache shows the claim of an earlier change. That claim is in the ledger all the same, and
// its reservation does not count as unneeded.
func TestChangeBeforeTheClaimIsSeen(t *testing.T) {
	tests := map[string]struct {
		reason string
		next   *unstructured.Unstructured
		want   []string
	}{
		"to nothing": {
			"the claim goes, and what others use stays",
			fleet("3", "acme", 0), []string{"acme uses 10, 0 in flight"},
		},
		"more": {
			"the claim follows, and what others use stays",
			fleet("3", "acme", 7), []string{"acme uses 17, 0 in flight", "claim of acme for 7"},
		},
		"handed over": {
			"the other one pays, and what others use stays",
			fleet("3", "zeta", 5), []string{"acme uses 10, 0 in flight", "claim of zeta for 5", "zeta uses 5, 0 in flight"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.othersUse(acme, 10)
				c := s.run(fleets(), fleet("1", "acme", 0))
				synctest.Wait()
				release := s.server.HoldWatches()
				_, err := storagetest.Reserve(t.Context(), c.Store, acme, ledger.Reservation{
					Key: ledgerstore.ObjectKey("p", string(fleetUID)), Charges: charges(5), Claim: intent("1").Encode(),
				})
				s.must(err)
				s.change(c, "1", fleet("2", "acme", 5))
				s.must(c.Store.Flush(t.Context()))
				if diff := cmp.Diff([]string{"acme uses 10, 1 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
					t.Fatalf("before the claim is seen (-want +got):\n%s", diff)
				}
				s.change(c, "2", tt.next)
				release()
				s.wantFinally(tt.reason, tt.want...)
			})
		})
	}
}

// A process dies after it granted the claim of a change and before it settled it, and the policy goes
// before the next one starts. The claim stays, and so does its charge.
func TestPolicyGoneBeforeItsClaimIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		s.claim(s.reserve(acme, 5, "1"), true)
		s.run(nil, fleet("2", "acme", 5))
		s.wantFinally("who has paid goes on paying", "acme uses 15, 0 in flight", "claim of acme for 5")
	})
}

// Repeated tries of a change count as one, if another webhook denies them.
func TestRepeatedTriesOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 5)
		c := s.run(fleets(), fleet("1", "acme", 5))
		synctest.Wait()
		for range 100 {
			c.Engine.Expect(theFleet, "1", []quotav1alpha1.ConsumerRef{acme})
			c.Engine.Expect(theFleet, "1", []quotav1alpha1.ConsumerRef{zeta})
		}
		for _, consumer := range []quotav1alpha1.ConsumerRef{acme, zeta} {
			if !c.Engine.IsFreeing(fleetUID, "2", consumer) {
				t.Errorf("%s has nothing to wait for", consumer.Name)
			}
		}
	})
}

// The wait for quota of an update continues even if the engine reconciles the object, for another reason, before the
// update.
func TestLookBeforeTheUpdateIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 100)
		c := s.run(fleets(), fleet("1", "acme", 100))
		synctest.Wait()
		c.Engine.Expect(theFleet, "1", []quotav1alpha1.ConsumerRef{acme})
		c.Engine.Queue().Add(theFleet)
		synctest.Wait()
		decided := make(chan ledger.Decision, 1)
		go func() {
			decision, _ := storagetest.Reserve(t.Context(), c.Store, acme, ledger.Reservation{Key: ledgerstore.ObjectKey("q", "waits"), Charges: charges(50)})
			decided <- decision
		}()
		synctest.Wait()
		s.must(s.live.Tracker().Update(fleetResource, fleet("2", "acme", 10), "ns"))
		c.Engine.Modified(theFleet)
		if decision := <-decided; decision.Code != ledger.Admitted {
			t.Errorf("got %s, want what the update frees", decision.Code)
		}
		synctest.Wait()
	})
}

// Quota freed by a change is on its way from the change until the claim has followed.
func TestWhatAChangeFreesIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 5)
		c := s.run(fleets(), fleet("1", "acme", 5))
		synctest.Wait()
		want := func(reason string, want bool, version string, consumer quotav1alpha1.ConsumerRef) {
			t.Helper()
			if got := c.Engine.IsFreeing(fleetUID, version, consumer); got != want {
				t.Errorf("%s: got %t, want %t", reason, got, want)
			}
		}
		want("there is no change", false, "2", acme)
		c.Engine.Expect(theFleet, "1", []quotav1alpha1.ConsumerRef{acme})
		want("the change was not made", false, "1", acme)
		want("the claim has not followed", true, "2", acme)
		want("another consumer has no more by it", false, "2", zeta)
		s.must(s.live.Tracker().Update(fleetResource, fleet("2", "acme", 2), "ns"))
		c.Engine.Modified(theFleet)
		synctest.Wait()
		want("the claim has followed", false, "2", acme)
		s.wantFinally("the claim has followed", "acme uses 2, 0 in flight", "claim of acme for 2")
	})
}

// Another replica has reviewed a slow update. This replica makes the claim follow, and until then retains the
// reservation.
func TestUpdateThatAnotherReplicaReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.amend(s.paid(acme, 2), 5, "1")
		c := s.run(fleets(), fleet("1", "acme", 2))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 2, 1 in flight", "claim of acme for 2"}, s.outcome()); diff != "" {
			t.Errorf("before the update is made (-want +got):\n%s", diff)
		}
		s.must(s.live.Tracker().Update(fleetResource, fleet("2", "acme", 5), "ns"))
		c.Engine.Modified(theFleet)
		s.wantFinally("the claim has followed", "acme uses 5, 0 in flight", "claim of acme for 5")
	})
}
