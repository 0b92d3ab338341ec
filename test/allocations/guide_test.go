package allocations

import (
	"testing"

	"github.com/bursar/bursar/test/guide"
)

// The README of the example says what to type, and what comes of it.
func TestGuide(t *testing.T) {
	if texts := guide.Follow(t, "examples/allocations/README.md", started.Kubeconfig); texts != 3 {
		t.Errorf("%d outputs are told, want 3", texts)
	}
}
