package allocation

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list returns a resource list of names and amounts in turn.
func list(texts ...string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := 0; i < len(texts); i += 2 {
		all[corev1.ResourceName(texts[i])] = resource.MustParse(texts[i+1])
	}
	return all
}

func TestLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		reason     string
		hard, want corev1.ResourceList
	}{
		"Nothing":  {"there is nothing to name", nil, nil},
		"Short":    {"cpu is requests.cpu", list("cpu", "4"), list("cpu", "4", "requests.cpu", "4")},
		"Long":     {"and the other way round", list("requests.memory", "4Gi"), list("memory", "4Gi", "requests.memory", "4Gi")},
		"Storage":  {"ephemeral storage as well", list("ephemeral-storage", "1Gi"), list("ephemeral-storage", "1Gi", "requests.ephemeral-storage", "1Gi")},
		"Pages":    {"huge pages of every size", list("hugepages-2Mi", "1Gi"), list("hugepages-2Mi", "1Gi", "requests.hugepages-2Mi", "1Gi")},
		"Counts":   {"kinds with an old name", list("secrets", "5", "count/services", "3"), list("secrets", "5", "count/secrets", "5", "services", "3", "count/services", "3")},
		"Lower":    {"the lower limit binds", list("cpu", "4", "requests.cpu", "6"), list("cpu", "4", "requests.cpu", "4")},
		"AllPods":  {"a limit on all Pods limits the running ones", list("count/pods", "600"), list("count/pods", "600", "pods", "600")},
		"Running":  {"finished Pods are free, so their number has no limit", list("pods", "4"), list("pods", "4")},
		"BothPods": {"the number of running Pods is lower", list("pods", "4", "count/pods", "600"), list("pods", "4", "count/pods", "600")},
		"Others": {
			"these have one name", list("limits.cpu", "4", "requests.storage", "1Gi", "requests.nvidia.com/gpu", "1", "count/deployments.apps", "2", "services.nodeports", "1"),
			list("limits.cpu", "4", "requests.storage", "1Gi", "requests.nvidia.com/gpu", "1", "count/deployments.apps", "2", "services.nodeports", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tt.hard)
			if diff := cmp.Diff(tt.want, Limits(tt.hard)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if diff := cmp.Diff(before, tt.hard); diff != "" {
				t.Errorf("the given list changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestLimiting(t *testing.T) {
	hard := list("requests.cpu", "6", "count/pods", "600", "pods", "4")
	for name, want := range map[corev1.ResourceName][]corev1.ResourceName{
		"cpu": {"requests.cpu"}, "requests.cpu": {"requests.cpu"}, "pods": {"count/pods", "pods"}, "count/pods": {"count/pods"}, "secrets": nil,
	} {
		if diff := cmp.Diff(want, Limiting(hard, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
