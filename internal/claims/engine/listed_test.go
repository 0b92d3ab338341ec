package engine_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/claims/engine"
)

// The engine reads a listed object again only if its claim does not hold the demand for the listed form.
func TestListedObjectIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.paid(acme, 3)
		c := s.run(fleets(), fleet("5", acme.Name, 3))
		synctest.Wait()
		for name, tt := range map[string]struct {
			reason string
			listed *unstructured.Unstructured
			reads  bool
		}{
			"same":     {"the claim holds it", fleet("5", acme.Name, 3), false},
			"amount":   {"it may have to be amended", fleet("5", acme.Name, 4), true},
			"consumer": {"it may have to be replaced", fleet("5", zeta.Name, 3), true},
		} {
			s.live.ClearActions()
			result, err := c.Engine.ReconcileListed(t.Context(), c.Engine.Catalog.Policy("p"), tt.listed)
			if result != engine.Unchanged || err != nil {
				t.Errorf("%s: got %d, %v, want what is stored to conform", name, result, err)
			}
			if reads := len(s.live.Actions()) > 0; reads != tt.reads {
				t.Errorf("%s: the object is read again: %t, want %t, since %s", name, reads, tt.reads, tt.reason)
			}
		}
	})
}
