package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wantFinally waits until there is nothing left to wait for, and compares the outcome.
func (s *stage) wantFinally(reason string, want ...string) {
	s.Helper()
	time.Sleep(finally)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

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
			"it counts in place of its reservation",
			func(s *stage) { s.claim(s.reserve(acme, 2), true) }, fleet("1", "acme", 2),
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

				s.wantFinally(tt.reason, tt.want...)
			})
		})
	}
}
