package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A process may die between any two steps of making a claim follow its object. Another one finishes the change: the
// claim and the ledger get the demand of the policy for the stored object.
func TestChangesAreFinished(t *testing.T) {
	tests := map[string]struct {
		reason string
		left   func(*stage)
		object *unstructured.Unstructured
		// without is set if the policy was removed.
		without bool
		want    []string
	}{
		"raise, not made": {
			"what was reserved for it comes back",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1") }, fleet("1", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"raise, made": {
			"the claim follows",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1") }, fleet("2", "acme", 5), false,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"raise, another made": {
			"what counts is what is stored",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1") }, fleet("3", "acme", 7), false,
			[]string{"acme uses 7, 0 in flight", "claim of acme for 7"},
		},
		"raise, claim patched": {
			"its status is still to be written, and the ledger",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.request(c, 5, false) }, fleet("2", "acme", 5), false,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"raise, claim done": {
			"only the ledger lacks it",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.request(c, 5, true) }, fleet("2", "acme", 5), false,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"raise, claim patched, lowered since": {
			"the amendment knows the ledger",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.request(c, 5, false) }, fleet("3", "acme", 1), false,
			[]string{"acme uses 1, 0 in flight", "claim of acme for 1"},
		},
		"reduction, made": {
			"the claim follows",
			func(s *stage) { s.amend(s.paid(acme, 5), 2, "1") }, fleet("2", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"reduction, claim patched": {
			"the ledger still has all of it",
			func(s *stage) { c := s.paid(acme, 5); s.amend(c, 2, "1"); s.request(c, 2, false) }, fleet("2", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"reduction, made to nothing": {
			"the claim goes",
			func(s *stage) { s.amend(s.paid(acme, 5), 2, "1") }, fleet("2", "acme", 0), false,
			nil,
		},
		"to nothing, made": {
			"the claim goes",
			func(s *stage) { s.amend(s.paid(acme, 5), 0, "1") }, fleet("2", "acme", 0), false,
			nil,
		},
		"to nothing, not made": {
			"the claim stays",
			func(s *stage) { s.amend(s.paid(acme, 5), 0, "1") }, fleet("1", "acme", 5), false,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"to nothing, raised since": {
			"the claim follows",
			func(s *stage) { s.amend(s.paid(acme, 5), 0, "1") }, fleet("3", "acme", 7), false,
			[]string{"acme uses 7, 0 in flight", "claim of acme for 7"},
		},
		"object gone": {
			"whatever was under way, nothing is held",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.request(c, 5, false) }, nil, false,
			nil,
		},
		"claim gone": {
			"the object is charged as it is stored",
			func(s *stage) { s.reserve(acme, 5, "1") }, fleet("2", "acme", 5), false,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"policy gone, claim as before": {
			"the change is not followed any more, and nothing stays in flight",
			func(s *stage) { s.amend(s.paid(acme, 2), 5, "1") }, fleet("2", "acme", 5), true,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"policy gone, claim done": {
			"the ledger follows the claim",
			func(s *stage) { c := s.paid(acme, 2); s.amend(c, 5, "1"); s.request(c, 5, true) }, fleet("2", "acme", 5), true,
			[]string{"acme uses 5, 0 in flight", "claim of acme for 5"},
		},
		"policy gone, handing over": {
			"who has paid goes on paying",
			func(s *stage) { s.paid(acme, 2); s.reserve(zeta, 2, "1") }, fleet("2", "zeta", 2), true,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"handing over, made": {
			"the other one pays",
			func(s *stage) { s.paid(acme, 2); s.reserve(zeta, 2, "1") }, fleet("2", "zeta", 2), false,
			[]string{"claim of zeta for 2", "zeta uses 2, 0 in flight"},
		},
		"handing over, raised since": {
			"the other one pays what it costs now",
			func(s *stage) { s.paid(acme, 2); s.reserve(zeta, 2, "1") }, fleet("3", "zeta", 4), false,
			[]string{"claim of zeta for 4", "zeta uses 4, 0 in flight"},
		},
		"handing over, claim gone": {
			"the other one is still to pay",
			func(s *stage) { s.reserve(zeta, 2, "1") }, fleet("2", "zeta", 2), false,
			[]string{"claim of zeta for 2", "zeta uses 2, 0 in flight"},
		},
		"handing over, object gone": {
			"nobody pays",
			func(s *stage) { s.reserve(zeta, 2, "1") }, nil, false,
			nil,
		},
		"creating": {
			"the claim is made",
			func(s *stage) { s.reserve(acme, 2, "") }, fleet("1", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, claim made": {
			"it is granted",
			func(s *stage) { s.claim(s.reserve(acme, 2, ""), false) }, fleet("1", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, claim of a review that was given up": {
			"it goes, and that of the other review is made",
			func(s *stage) {
				givenUp := s.reserve(acme, 2, "")
				s.claim(givenUp, false)
				s.must(s.store.Cancel(s.Context(), acme, givenUp.Key, givenUp.Sequence))
				s.reserve(acme, 2, "")
			}, fleet("1", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"created, claim of a reservation that is gone": {
			"the object is charged by another claim",
			func(s *stage) {
				withdrawn := s.reserve(acme, 2, "")
				s.claim(withdrawn, false)
				s.must(s.store.Cancel(s.Context(), acme, withdrawn.Key, withdrawn.Sequence))
			}, fleet("1", "acme", 2), false,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, object never came": {
			"nothing is held",
			func(s *stage) { s.reserve(acme, 2, "") }, nil, false,
			nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				tt.left(s)
				var policy *quotav1alpha1.ClaimCreationPolicy
				if !tt.without {
					policy = fleets()
				}
				s.run(policy, tt.object)
				time.Sleep(settledAfter)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, s.outcome()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}
