package compute

import (
	"testing"

	"github.com/bursar/bursar/test/guide"
)

// The README of the example says what to type, and what comes of it.
func TestGuide(t *testing.T) {
	if texts := guide.Follow(t, "examples/compute/README.md", started.Kubeconfig); texts != 10 {
		t.Errorf("%d outputs are told, want 10", texts)
	}
}
