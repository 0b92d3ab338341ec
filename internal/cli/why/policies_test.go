package why

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/policy"
)

// An explanation uses the generation of a policy that decides requests, which need not be the latest.
func TestEvaluatesTheEffectiveGeneration(t *testing.T) {
	costs := func(amount int64) (spec quotav1alpha1.ClaimCreationPolicySpec) {
		spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}
		template := &spec.Target.ResourceClaimTemplate.Spec
		template.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Team", Name: "red"}
		template.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "maps", Amount: amount}}
		return spec
	}
	stored := func(generation int64, spec any) *quotav1alpha1.EffectivePolicy {
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return &quotav1alpha1.EffectivePolicy{Generation: generation, Spec: runtime.RawExtension{Raw: raw}}
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}

	for name, tt := range map[string]struct {
		effective *quotav1alpha1.EffectivePolicy
		want      int64
	}{
		"the latest":         {stored(2, costs(2)), 2},
		"a former one":       {stored(1, costs(1)), 1},
		"none yet":           {nil, 2},
		"of a later version": {stored(1, map[string]any{"trigger": "new"}), 2},
	} {
		t.Run(name, func(t *testing.T) {
			latest := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "maps", Generation: 2}, Spec: costs(2)}
			latest.Status.Effective = tt.effective
			reader := &Reader{registrations: catalog.New()}
			got := reader.evaluate(t.Context(), inEffect(latest), policy.Input{Object: object, WithoutRequest: true})
			if got.payment == nil || got.payment.Requests[0].Amount != tt.want {
				t.Errorf("got %+v, want a payment of %d", got, tt.want)
			}
		})
	}
}
