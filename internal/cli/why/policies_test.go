package why

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
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
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}}
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

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
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(latest).Build()
			reader := &Reader{API: api, registrations: catalog.New()}

			got, err := reader.policies(t.Context(), object)
			if err != nil || len(got) != 1 || got[0].payment == nil || got[0].payment.Requests[0].Amount != tt.want {
				t.Errorf("got %+v, %v; want a payment of %d", got, err, tt.want)
			}
		})
	}
}
