package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A process may die between any two steps of making the claim of a created object. Another one finishes it.
func TestCreatesAreFinished(t *testing.T) {
	tests := map[string]struct {
		reason string
		left   func(*stage)
		object *unstructured.Unstructured
		want   []string
	}{
		"creating": {
			"the claim is made",
			func(s *stage) { s.reserve(acme, 2) }, fleet("1", "acme", 2),
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, claim made": {
			"it is settled",
			func(s *stage) { s.claim(s.reserve(acme, 2), true) }, fleet("1", "acme", 2),
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, claim of a review that was given up": {
			"it goes, and that of the other review is made",
			func(s *stage) {
				givenUp := s.reserve(acme, 2)
				s.claim(givenUp, false)
				s.must(s.store.Cancel(s.Context(), acme, givenUp.Key, givenUp.Sequence))
				s.reserve(acme, 2)
			}, fleet("1", "acme", 2),
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
		"creating, object never came": {
			"nothing is held",
			func(s *stage) { s.reserve(acme, 2) }, nil,
			nil,
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
