package enforce

import (
	"testing"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// applied counts the applications of each policy. It is an [Evaluations].
type applied map[string]int

func (a applied) Succeeded(p *catalog.Policy)                         { a[p.Name]++ }
func (applied) Failed(*catalog.Policy, evaluator.Object, error, bool) {}

// A policy with a demand for an object counts as applied. Objects excluded by its conditions say nothing about it.
func TestExcludedObjectsAreNoSuccess(t *testing.T) {
	s := newScene(t, 1)
	s.policy("globex", "false")
	counts := applied{}
	s.Evaluations = counts
	if answer := s.review("1"); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Result.Message)
	}
	if counts["acme"] != 1 || counts["globex"] != 0 {
		t.Errorf("applied %v, want acme alone", counts)
	}
}
