package quotareview

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// TestCausesOfDenial checks that a denial has its own causes, and none of warnings before or after it.
func TestCausesOfDenial(t *testing.T) {
	cause := func(resourceType string) quotav1alpha1.ReviewedCause {
		return quotav1alpha1.ReviewedCause{Type: quotav1alpha1.CauseNothingGranted, ResourceType: resourceType}
	}
	policy := &catalog.Policy{Name: "audited", Mode: quotav1alpha1.EnforcementModeAudit}
	var it item
	it.warn(policy, "it is too much", cause("a"))
	if diff := cmp.Diff([]quotav1alpha1.ReviewedCause{cause("a")}, it.causes); diff != "" {
		t.Errorf("a warning has other causes (-want +got):\n%s", diff)
	}
	it.deny("it is too much", cause("b"))
	it.deny("it is too much", cause("c"))
	it.warn(policy, "it is too much", cause("d"))
	if diff := cmp.Diff([]quotav1alpha1.ReviewedCause{cause("b"), cause("c")}, it.causes); diff != "" {
		t.Errorf("a denial has other causes (-want +got):\n%s", diff)
	}
}
