package enforce

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReviewedIsToldToOthers asks, as another replica would, what a replica has decided.
func TestReviewedIsToldToOthers(t *testing.T) {
	s := newScene(t, 10)
	s.createNumbered(false, 1)
	policies := s.Catalog.Policies(configMap)
	if len(policies) == 0 {
		t.Fatal("there is no policy")
	}
	known, changed := *policies[0], *policies[0]
	changed.Generation++
	s.reviewed.add("reviewed", s.Catalog.Revision())
	mux := http.NewServeMux()
	mux.Handle(s.ServeReviewed())
	ask := func(path string) int {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code
	}
	if code := ask(ReviewedPath("reviewed", &known)); code != http.StatusNoContent {
		t.Errorf("of what was decided it says %d", code)
	}
	if code := ask(ReviewedPath("other", &known)); code != http.StatusNotFound {
		t.Errorf("of what was not decided it says %d", code)
	}
	if code := ask(ReviewedPath("reviewed", &changed)); code != http.StatusNotFound {
		t.Errorf("of a later generation of the policy it says %d", code)
	}
}
