package enforce

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
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
	ask := func(p *catalog.Policy) (reviewed ReviewedObjects) {
		t.Helper()
		question, err := json.Marshal(ReviewedObjects{UIDs: []types.UID{"other", "reviewed"}})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, ReviewedPath(p), bytes.NewReader(question)))
		if err := json.Unmarshal(answer.Body.Bytes(), &reviewed); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("it answers %d, %v", answer.Code, err)
		}
		return reviewed
	}
	if got := ask(&known).UIDs; len(got) != 1 || got[0] != "reviewed" {
		t.Errorf("of the objects that were decided it says %q", got)
	}
	if got := ask(&changed).UIDs; len(got) != 0 {
		t.Errorf("of a later generation of the policy it says %q", got)
	}
}
