package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// wantRetry has a process reconcile a version of the fleet, and wants an error that is worth a retry.
func (s *stage) wantRetry(c *lifecycle.Controller, read *unstructured.Unstructured) {
	s.Helper()
	if _, err := c.Engine.Reconcile(s.Context(), c.Engine.Catalog.Policy("p"), read); !evaluator.IsTransient(err) {
		s.Errorf("got %v, want an error that is worth a retry", err)
	}
}

// An object disappears together with its claim, before or while the engine looks for the claim. The engine charges
// nothing: another object may already have its quota.
func TestListedObjectIsDeletedMeanwhile(t *testing.T) {
	onlyCreates := fleets()
	onlyCreates.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate}
	for name, tt := range map[string]struct {
		policy *quotav1alpha1.ClaimCreationPolicy
		stored *unstructured.Unstructured
	}{
		"before":                     {onlyCreates, nil},
		"before, with updates":       {fleets(), nil},
		"at the claim":               {onlyCreates, fleet("5", acme.Name, 3)},
		"at the claim, with updates": {fleets(), fleet("5", acme.Name, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				c := s.run(tt.policy, tt.stored)
				s.server.Intercept(func(method, _ string) bool {
					if method == http.MethodGet && tt.stored != nil {
						_ = s.live.Tracker().Delete(fleetResource, "ns", "a")
						_ = s.metadata.Tracker().Delete(fleetResource, "ns", "a")
					}
					return false
				})
				before := len(s.memory.Revisions(acme))
				result, err := c.Engine.ReconcileListed(t.Context(), c.Engine.Catalog.Policy("p"), fleet("5", acme.Name, 3))
				if result == engine.Adopted || err != nil {
					t.Errorf("got %d, %v, want that nothing is adopted", result, err)
				}
				if written := len(s.memory.Revisions(acme)) - before; written != 0 {
					t.Errorf("the ledger was written %d times, want never", written)
				}
			})
		})
	}
}

// Another process follows an update while the engine reads the claim, and the quota freed by it may pay for another
// object. The engine does not amend, replace or make a claim by what it read before.
func TestObjectChangesBeforeItsClaimIsRead(t *testing.T) {
	later := fleet("6", acme.Name, 3)
	for name, tt := range map[string]struct {
		held   int64
		before *unstructured.Unstructured
	}{
		"amount":   {3, fleet("5", acme.Name, 9)},
		"consumer": {3, fleet("5", zeta.Name, 3)},
		"no claim": {0, fleet("5", acme.Name, 9)},
		"end":      {3, fleet("5", acme.Name, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if tt.held > 0 {
					s.paid(acme, tt.held)
				}
				c := s.run(fleets(), tt.before)
				synctest.Wait()
				s.server.Intercept(func(method, _ string) bool {
					if method == http.MethodGet {
						s.must(s.live.Tracker().Update(fleetResource, later, "ns"))
					}
					return false
				})
				before := len(s.memory.Revisions(acme)) + len(s.memory.Revisions(zeta))
				s.wantRetry(c, tt.before)
				if written := len(s.memory.Revisions(acme)) + len(s.memory.Revisions(zeta)) - before; written != 0 {
					t.Errorf("the ledgers were written %d times, want never", written)
				}
				s.server.Intercept(nil)
				if _, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), later); err != nil {
					t.Error(err)
				}
				s.wantFinally("the claim follows the later version", "acme uses 3, 0 in flight", "claim of acme for 3")
			})
		})
	}
}

// Another process follows an update after the engine has read the object and its claim. It may have had nothing to
// write. The engine does not begin an amendment.
func TestUpdateBeforeAmendment(t *testing.T) {
	for name, isWritten := range map[string]bool{"claim amended": true, "claim conforms": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				held := s.paid(acme, 3)
				c := s.run(fleets(), fleet("5", acme.Name, 9))
				synctest.Wait()
				reads := 0
				s.server.Intercept(func(method, _ string) bool {
					if method != http.MethodGet {
						return false
					}
					if reads++; reads == 2 {
						if isWritten { // from 3 to 9 and back
							s.server.Change(held.Name, func(*quotav1alpha1.ResourceClaim) {})
						} else {
							s.must(s.live.Tracker().Update(fleetResource, fleet("6", acme.Name, 3), "ns"))
						}
					}
					return false
				})
				before := len(s.memory.Revisions(acme))
				s.wantRetry(c, fleet("5", acme.Name, 9))
				if written := len(s.memory.Revisions(acme)) - before; written != 0 || reads != 2 {
					t.Errorf("the ledger was written %d times and the claim read %d times, want 0 and 2", written, reads)
				}
			})
		})
	}
}

// An update comes after the claim follows the former version. The amendment ends only with the later one.
func TestUpdateDuringAmendment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 3)
		c := s.run(fleets(), fleet("5", acme.Name, 9))
		synctest.Wait()
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPatch {
				s.must(s.live.Tracker().Update(fleetResource, fleet("6", acme.Name, 4), "ns"))
			}
			return false
		})
		s.wantRetry(c, fleet("5", acme.Name, 9))
		if diff := cmp.Diff([]string{"acme uses 3, 1 in flight", "claim of acme for 9"}, s.outcome()); diff != "" {
			t.Errorf("after the update (-want +got):\n%s", diff)
		}
		s.server.Intercept(nil)
		if _, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("6", acme.Name, 4)); err != nil {
			t.Error(err)
		}
		s.wantFinally("the claim follows the later version", "acme uses 4, 0 in flight", "claim of acme for 4")
	})
}

// Another process follows a later version, and ends the amendment that this one still knows. The claim keeps its
// amount.
func TestUpdateAfterAmendment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		held := s.paid(acme, 3)
		s.amend(held, 9, "4")
		s.server.Intercept(func(method, name string) bool { return method == http.MethodGet && name == held.Name })
		c := s.run(fleets(), fleet("5", acme.Name, 9))
		synctest.Wait()
		other := ledgerstore.New(s.alive, s.memory.Connect(nil))
		if isEnded, err := other.SettleAmendment(t.Context(), acme, ledgerstore.AmendmentKey("p", string(fleetUID)), 0, charges(3)); !isEnded || err != nil {
			t.Fatalf("the amendment ends: %t, %v", isEnded, err)
		}
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodGet {
				s.must(s.live.Tracker().Update(fleetResource, fleet("6", acme.Name, 3), "ns"))
			}
			return false
		})
		s.wantRetry(c, fleet("5", acme.Name, 9))
		if got := s.server.Get(held.Name).Spec.Requests[0].Amount; got != 3 {
			t.Errorf("the claim requests %d, want 3", got)
		}
		s.wantFinally("the claim follows the later version", "acme uses 3, 0 in flight", "claim of acme for 3")
	})
}

// An update is undone before the claim has followed it. A late write of the claim, by the process that followed the
// update, has no effect: the claim changes with the amendment's end, even if its amounts do not.
func TestLateWriteOfClaim(t *testing.T) {
	for name, policy := range map[string]*quotav1alpha1.ClaimCreationPolicy{"followed": fleets(), "without policy": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				held := s.paid(acme, 3)
				known := catalog.New()
				known.SetRegistration(registration())
				claims.Grant(held, known, time.Now())
				s.server.Put(held)
				s.amend(held, 9, "4")
				c := s.run(policy, fleet("6", acme.Name, 3))
				s.wantFinally("the amendment has ended", "acme uses 3, 0 in flight", "claim of acme for 3")
				late := c.Engine.Client.Amend(t.Context(), held, claims.RequestsOf(charges(9)), 1, func(*quotav1alpha1.ResourceClaim) {})
				if !apierrors.IsConflict(late) {
					t.Errorf("got %v, want a conflict", late)
				}
				s.wantFinally("the late write has no effect", "acme uses 3, 0 in flight", "claim of acme for 3")
			})
		})
	}
}
