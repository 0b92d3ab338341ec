package validate

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// TestWarnUnboundedSums warns if requests for many sets of dimensions may together get more than a rule says.
func TestWarnUnboundedSums(t *testing.T) {
	type spec = quotav1alpha1.QuotaRequestPolicySpec
	registrations := catalog.New()
	for resourceType, dimensions := range map[string][]string{"gpus": {"model", "zone"}, "pods": nil} {
		registration := &quotav1alpha1.ResourceRegistration{}
		registration.Name, registration.Spec.ResourceType, registration.Spec.Dimensions = resourceType, resourceType, dimensions
		apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		registrations.SetRegistration(registration)
	}
	rule := quotav1alpha1.QuotaRequestRule{Name: "small", Condition: `asks.all(a, a.dimensions.model == "h200" && a.wanted <= 5)`, Action: quotav1alpha1.ActionApprove}
	for name, tt := range map[string]struct {
		reason string
		change func(*spec)
		want   string
	}{
		"no ceiling":   {"five in each zone", func(*spec) {}, "dimensions of gpus by itself"},
		"a ceiling":    {"it bounds the sum over all zones", func(s *spec) { s.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: "gpus", Limit: 5}} }, ""},
		"of others":    {"it does not bound GPUs", func(s *spec) { s.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: "pods", Limit: 5}} }, "gpus"},
		"people":       {"they see what they approve", func(s *spec) { s.Rules[0].Action = quotav1alpha1.ActionAsk }, ""},
		"everything":   {"the rule says that there is no bound", func(s *spec) { s.Rules[0].Condition = "" }, ""},
		"no dimension": {"the figures are of the whole type", func(s *spec) { s.ResourceTypes = []string{"pods"} }, ""},
		"all types":    {"it reads dimensions", func(s *spec) { s.ResourceTypes = nil }, "every resource type"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spec{ResourceTypes: []string{"gpus"}, Rules: []quotav1alpha1.QuotaRequestRule{rule}}
			tt.change(s)

			got := strings.Join(warnUnboundedSums(registrations, s), "\n")

			if got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
