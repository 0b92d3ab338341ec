package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/claims/engine"
)

// An object disappears together with its claim, before or while the engine looks for the claim. The engine charges
// nothing: another object may already have its quota.
func TestListedObjectIsDeletedMeanwhile(t *testing.T) {
	for name, stored := range map[string]*unstructured.Unstructured{
		"before":       nil,
		"at the claim": fleet("5", acme.Name, 3),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				c := s.run(fleets(), stored)
				s.server.Intercept(func(method, _ string) bool {
					if method == http.MethodGet && stored != nil {
						_ = s.live.Tracker().Delete(fleetResource, "ns", "a")
						_ = s.metadata.Tracker().Delete(fleetResource, "ns", "a")
					}
					return false
				})
				before := len(s.memory.Revisions(acme))
				result, err := c.Engine.Reconcile(t.Context(), c.Engine.Catalog.Policy("p"), fleet("5", acme.Name, 3))
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
