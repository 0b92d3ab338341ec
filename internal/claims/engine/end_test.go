package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/ledger"
)

// soon is far shorter than the life of a reservation.
const soon = 10 * time.Second

// wantSoon compares the outcome long before the end of a reservation's life.
func (s *stage) wantSoon(reason string, want ...string) {
	s.Helper()
	time.Sleep(soon)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestReservationEndsWithItsCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		reason  string
		exists  bool
		isEnded bool
		want    []string
	}{
		"failed":    {"nothing makes the object any more", false, true, nil},
		"succeeded": {"the answer of the API server proves nothing", true, true, []string{"acme uses 5, 0 in flight", "claim of acme for 5"}},
		"under way": {"the object may come", false, false, []string{"acme uses 0, 1 in flight"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.reserve(acme, 5, "")
				object := fleet("1", "acme", 5)
				if !tt.exists {
					object = nil
				}
				c := s.run(fleets(), object)

				if tt.isEnded {
					c.Engine.EndCreate(theFleet)
				}

				s.wantSoon(tt.reason, tt.want...)
			})
		})
	}
}

// admit has c admit an update of the fleet, with its present version and replicas.
func (s *stage) admit(c *lifecycle.Controller, id string, before, replicas int64) {
	s.Helper()
	unlock, err := c.Store.LockObject(s.Context(), string(fleetUID))
	s.must(err)
	defer unlock()
	policy, object := c.Engine.Catalog.Policy("p"), evaluator.ObjectOf(fleetKind, fleet("1", "acme", before))
	demand := func(replicas int64) *evaluator.Claim {
		in := c.Engine.Evaluator.Input(fleet("1", "acme", replicas).Object)
		claim, err := c.Engine.Evaluator.Evaluate(s.Context(), policy, object, in)
		s.must(err)
		return claim
	}
	decision, _, err := c.Engine.PrepareUpdate(s.Context(), engine.Update{
		Object: object, Base: "1", Policy: policy, Before: demand(before), After: demand(replicas),
	}, false, false)
	s.must(err)
	if decision.Code != ledger.Admitted {
		s.Fatalf("the update to %d replicas is decided with %s", replicas, decision.Code)
	}
	c.Engine.ExpectUpdate(theFleet, "1", nil, types.UID("update-"+id))
}

// Updates of one object share an amendment. It ends with the last one of them.
func TestAmendmentEndsWithItsUpdates(t *testing.T) {
	before, during := []string{"acme uses 5, 0 in flight", "claim of acme for 5"}, []string{"acme uses 5, 1 in flight", "claim of acme for 5"}
	for name, tt := range map[string]struct {
		reason   string
		admitted []string
		ended    []string
		foreign  bool
		want     []string
	}{
		"one":               {"it failed", []string{"a"}, []string{"a"}, false, before},
		"one of two":        {"the other one may come", []string{"a", "b"}, []string{"a"}, false, during},
		"both":              {"both failed", []string{"a", "b"}, []string{"b", "a"}, false, before},
		"an unknown update": {"it is another one", []string{"a"}, []string{"b"}, false, during},
		"by another process, too": {
			"another process admitted an update under the same amendment, and only that one knows its end",
			[]string{"a"}, []string{"a"}, true, during,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				claim := s.paid(acme, 5)
				c := s.run(fleets(), fleet("1", "acme", 5))
				synctest.Wait()
				if tt.foreign {
					s.store = c.Store
					s.amend(claim, 8, "1")
				}
				for _, id := range tt.admitted {
					s.admit(c, id, 5, 9)
				}

				for _, id := range tt.ended {
					c.Engine.EndUpdate(theFleet, types.UID("update-"+id))
				}

				s.wantSoon(tt.reason, tt.want...)
			})
		})
	}
}
