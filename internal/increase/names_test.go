package increase

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// TestNames proves that an increase counts in the limit of the base, also if it has the other name of the resource.
func TestNames(t *testing.T) {
	amounts := func(name corev1.ResourceName, amount int64) corev1.ResourceList {
		return corev1.ResourceList{name: *resource.NewQuantity(amount, resource.DecimalSI)}
	}
	for name, tt := range map[string]struct {
		reason string
		base   corev1.ResourceList
		want   corev1.ResourceList
	}{
		"Long":  {"the definition says count/secrets", amounts("count/secrets", 7), amounts("count/secrets", 65)},
		"Short": {"the definition says secrets", amounts("secrets", 7), amounts("secrets", 65)},
		"None":  {"the first increase decides", nil, amounts("secrets", 58)},
	} {
		t.Run(name, func(t *testing.T) {
			increases := []Increase{{Name: "a", Hard: amounts("secrets", 50)}, {Name: "b", Hard: amounts("count/secrets", 8)}}
			names := NamesOf(tt.base, increases)
			for i := range increases {
				increases[i].Hard = names.Of(increases[i].Hard)
			}
			got := Compute(Input{Mode: openmcpv1alpha1.ModeCumulative, Base: tt.base, Increases: increases})
			if diff := cmp.Diff(tt.want, got.Hard); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
	pods := NamesOf(amounts("pods", 7), nil)
	if diff := cmp.Diff(amounts("count/pods", 5), pods.Of(amounts("count/pods", 5))); diff != "" {
		t.Errorf("pods and count/pods are two resources (-want +got):\n%s", diff)
	}
}
