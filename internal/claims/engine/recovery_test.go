package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

func TestChangesThatStopHalfWay(t *testing.T) {
	superseded := func(c *quotav1alpha1.ResourceClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, quotav1alpha1.AnnotationSuperseded, "true")
	}
	tests := map[string]struct {
		reason string
		left   func(*stage)
		object *unstructured.Unstructured
		want   []string
	}{
		"handing over, claim superseded": {
			"a claim that is marked to go, goes",
			func(s *stage) { c := s.paid(acme, 2); s.reserve(zeta, 2, "1"); superseded(c) }, fleet("2", "zeta", 2),
			[]string{"claim of zeta for 2", "zeta uses 2, 0 in flight"},
		},
		"to nothing, claim superseded": {
			"a claim that is marked to go, goes",
			func(s *stage) { superseded(s.paid(acme, 2)); s.reserve(zeta, 9, "1") }, fleet("2", "acme", 0),
			nil,
		},
		"handing over, claim made": {
			"the new claim is granted",
			func(s *stage) { s.claim(s.reserve(zeta, 2, "1"), false) }, fleet("2", "zeta", 2),
			[]string{"claim of zeta for 2", "zeta uses 2, 0 in flight"},
		},
		"from nothing, claim made": {
			"the claim is granted",
			func(s *stage) { s.claim(s.reserve(acme, 3, "1"), false) }, fleet("2", "acme", 3),
			[]string{"acme uses 3, 0 in flight", "claim of acme for 3"},
		},
		"handing over, not made": {
			"what the other one reserved comes back",
			func(s *stage) { s.paid(acme, 2); s.reserve(zeta, 2, "1") }, fleet("1", "acme", 2),
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"handing over, changed otherwise": {
			"what the other one reserved comes back",
			func(s *stage) { s.paid(acme, 2); s.reserve(zeta, 2, "1") }, fleet("2", "acme", 2),
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"from nothing, not made": {
			"what was reserved comes back",
			func(s *stage) { s.reserve(acme, 3, "1") }, fleet("1", "acme", 0),
			nil,
		},
		"from nothing, changed otherwise": {
			"the claim is made of what was reserved, and then follows",
			func(s *stage) { s.reserve(acme, 10, "1") }, fleet("2", "acme", 7),
			[]string{"acme uses 7, 0 in flight", "claim of acme for 7"},
		},
		"from nothing, handed over instead": {
			"who does not pay has it back",
			func(s *stage) { s.reserve(acme, 3, "1") }, fleet("2", "zeta", 3),
			[]string{"claim of zeta for 3", "zeta uses 3, 0 in flight"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				tt.left(s)
				s.run(fleets(), tt.object)
				time.Sleep(settledAfter)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, s.outcome()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}

// The ledger may have drifted from the claims. The auditor corrects that once nothing is in flight.
func TestAmendmentsEndThoughTheLedgerDrifted(t *testing.T) {
	unreadable := fleet("2", "acme", 5)
	unstructured.RemoveNestedField(unreadable.Object, "spec", "replicas")
	tests := map[string]struct {
		reason string
		left   func(*stage)
		object *unstructured.Unstructured
		want   []string
	}{
		"policy cannot be applied, charge missing": {
			"the claim goes on holding what it holds",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1"); s.lose(acme, 2) }, unreadable,
			[]string{"claim of acme for 2"},
		},
		"raise, charge missing": {
			"the claim holds what is asked",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1"); s.lose(acme, 2) }, fleet("2", "acme", 5),
			[]string{"claim of acme for 5"},
		},
		"object and claim gone": {
			"nobody needs what was reserved",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.server.Remove(c.Name) }, nil,
			[]string{"acme uses 2, 0 in flight"},
		},
		"claim gone, object free now": {
			"nothing is left that could change",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 0, "1"); s.server.Remove(c.Name) }, fleet("2", "acme", 0),
			[]string{"acme uses 2, 0 in flight"},
		},
		"claim gone, object charged again": {
			"what the claim that is gone held is drift",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.server.Remove(c.Name) }, fleet("2", "acme", 5),
			[]string{"acme uses 7, 0 in flight", "claim of acme for 5"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				tt.left(s)
				s.run(fleets(), tt.object)
				s.wantFinally(tt.reason, tt.want...)
			})
		})
	}
}

// lose removes used amounts from the ledger. This never happens in production.
func (s *stage) lose(consumer quotav1alpha1.ConsumerRef, amount int64) {
	s.Helper()
	_, err := s.store.Release(s.Context(), consumer, "lost", func(context.Context) (*ledgerstore.ClaimCharges, error) {
		return &ledgerstore.ClaimCharges{ClaimUID: "lost", Granted: true, Charges: charges(amount)}, nil
	})
	s.must(err)
	s.store.Forget(consumer, "lost")
}

// An outdated form of an object is no reason to undo the changes of its claim.
func TestConformToAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 5)
		c := s.run(fleets(), fleet("2", "acme", 5))
		_, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("1", "acme", 2))
		s.must(err)
		time.Sleep(settledAfter)
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 5, 0 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The engine looks again at an object with an unseen claim, for the claim may hold too little.
func TestConformBeforeTheClaimIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		reservation := s.reserve(acme, 2, "")
		s.store.Settle(acme, reservation.Key, reservation.Sequence)
		time.Sleep(settling)
		c := s.run(fleets(), fleet("2", "acme", 4))
		s.claim(reservation, true)
		result, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("2", "acme", 4))
		s.must(err)
		if result != engine.Pending {
			t.Errorf("got %d, want Pending", result)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 2, 0 in flight", "claim of acme for 2"}, s.outcome()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The engine repeats a failed request, and finishes the change.
func TestChangesAreFinishedDespiteFailures(t *testing.T) {
	for name, method := range map[string]string{"reads": "GET", "patches": "PATCH", "deletes": "DELETE", "creates": "POST"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.paid(acme, 2)
				s.reserve(zeta, 2, "1")
				failures := 3
				s.server.Intercept(func(m, claim string) bool {
					if m != method || failures == 0 || claim == "resourceclaims" && m == "GET" {
						return false
					}
					failures--
					return true
				})
				s.run(fleets(), fleet("2", "zeta", 2))
				time.Sleep(settledAfter)
				synctest.Wait()
				if diff := cmp.Diff([]string{"claim of zeta for 2", "zeta uses 2, 0 in flight"}, s.outcome()); diff != "" || failures > 0 {
					t.Errorf("%d failures were left (-want +got):\n%s", failures, diff)
				}
			})
		})
	}
}

// An amendment ends with its claim, even if the cache does not have the claim yet: a release without the amendment
// would release the charges in the claim instead of those in the ledger.
func TestAmendmentEndsWithAClaimThatWasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		store := ledgerstore.New(t.Context(), s.memory.Connect(nil))
		behind := s.standing(store)
		release := s.server.HoldWatches()
		claim := s.paid(acme, 2)
		s.amend(claim, 5, "1")
		s.request(claim, 5, true) // and the process behind this dies before it changes the ledger
		store.ObserveOf(acme, ledgerstore.Notice{Version: "999999"})
		s.must(store.View(t.Context(), acme, func(*ledger.Ledger) {}))
		if len(behind.Claims.ForObject(fleetUID)) > 0 || len(store.ReservationsFor(string(fleetUID))) == 0 {
			t.Fatal("the process should know of the amendment, and not of the claim")
		}
		behind.Engine.Vanished(fleetUID, true)
		s.must(behind.Engine.Process(t.Context(), theFleet))
		if inFlight := s.memory.Snapshot(acme).Reservations; len(inFlight) != 1 {
			t.Errorf("in flight: %+v, want the amendment", inFlight)
		}
		release()
		synctest.Wait()
	})
}

// unsteady answers nothing for the first time.
type unsteady struct{ answers bool }

func (u *unsteady) Active(context.Context, string) (bool, error) {
	if u.answers {
		return true, nil
	}
	u.answers = true
	return false, context.DeadlineExceeded
}

func (u *unsteady) Object(context.Context, string) (map[string]any, error) { return nil, nil }

// A moment of unknown cost does not cancel the reservation for a change.
func TestChangeIsFollowedAfterAFailure(t *testing.T) {
	for name, amount := range map[string]int64{"raise": 5, "reduction": 1, "to nothing": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.namespaces = &unsteady{}
				s.amend(s.paid(acme, 2), amount, "1")
				elsewhere := fleets()
				elsewhere.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = "other"
				elsewhere.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "trigger.spec.replicas > 0"}}
				s.run(elsewhere, fleet("2", "acme", amount))
				var want []string
				if amount > 0 {
					want = []string{fmt.Sprintf("acme uses %d, 0 in flight", amount), fmt.Sprintf("claim of acme for %d", amount)}
				}
				s.wantFinally("the claim follows", want...)
			})
		})
	}
}
