package quotakinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDeclaredNamespace leaves out what Kubernetes and Bursar write on namespaces.
func TestDeclaredNamespace(t *testing.T) {
	t.Parallel()
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": "team-a", "uid": "1", "resourceVersion": "5",
			"labels": map[string]any{
				"kubernetes.io/metadata.name": "team-a", "team": "a", "quota.miloapis.com/imported-limits": "resourcequota-1",
				"quota.openmcp.cloud/managed-by": "teams", "quota.openmcp.cloud/base": "base", "quota.openmcp.cloud/mode": "cumulative",
			},
			"annotations": map[string]any{"openshift.io/requester": "jane", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		},
		"spec": map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
	}}
	before := stored.DeepCopy()
	want := map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name":        "team-a",
			"labels":      map[string]any{"team": "a", "quota.miloapis.com/imported-limits": "resourcequota-1"},
			"annotations": map[string]any{"openshift.io/requester": "jane"},
		},
	}
	if diff := cmp.Diff(want, DeclaredNamespace(stored).Object); diff != "" {
		t.Errorf("the declaration (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, stored); diff != "" {
		t.Errorf("the stored object was changed (-before +after):\n%s", diff)
	}
}
