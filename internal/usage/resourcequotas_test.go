package usage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestLargeAllocations proves that the utilization of a cap is right for amounts beyond an int64, and that the shown
// amounts are those that somebody wrote.
func TestLargeAllocations(t *testing.T) {
	for name, tt := range map[string]struct {
		used, hard, left string
		want             float64
	}{
		"Beyond": {"50E", "100E", "50E", 0.5},
		"Mixed":  {"9E", "10E", "1E", 0.9},
		"Small":  {"500m", "2", "1500m", 0.25},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{}
			r.addAllocation("", "team", corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{"memory": resource.MustParse(tt.hard)}, Used: corev1.ResourceList{"memory": resource.MustParse(tt.used)},
			}, nil)
			got := r.all[0]
			if got.Utilization == nil || *got.Utilization != tt.want {
				t.Errorf("utilization %v, want %v", got.Utilization, tt.want)
			}
			if got.Used <= 0 || got.Limit <= got.Used || got.Display.TotalAllocated != tt.used || got.Display.TotalLimit != tt.hard || got.Display.Available != tt.left {
				t.Errorf("got %d of %d, shown as %+v", got.Used, got.Limit, got.Display)
			}
		})
	}
}
