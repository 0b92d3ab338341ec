package quotakinds

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/deploy/rbac"
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

// TestPlatformAdminsMayBackUp compares the objects of imports with those that platform administrators may list by name.
func TestPlatformAdminsMayBackUp(t *testing.T) {
	t.Parallel()
	roles, err := rbac.ForUsers()
	if err != nil {
		t.Fatal(err)
	}
	permitted := map[string][]string{}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if role.Name == "bursar-platform-admin" && slices.Contains(rule.Verbs, "list") {
					permitted[resource+"."+rule.APIGroups[0]] = rule.ResourceNames
				}
			}
		}
	}
	for _, kind := range ImportedKinds() {
		if names, may := permitted[kind.String()]; !may || !slices.Equal(names, kind.Names) {
			t.Errorf("platform administrators may list these %s: %v, want %v", kind, names, kind.Names)
		}
	}
}
