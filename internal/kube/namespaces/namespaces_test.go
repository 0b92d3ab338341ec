package namespaces

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestIsExempt(t *testing.T) {
	namespace, project, configMap := schema.GroupKind{Kind: "Namespace"}, schema.GroupKind{Group: "example.com", Kind: "Namespace"}, schema.GroupKind{Kind: "ConfigMap"}
	for name, tc := range map[string]struct {
		reason string
		kind   schema.GroupKind
		object types.NamespacedName
		want   bool
	}{
		"in kube-system":             {"the control plane's", configMap, types.NamespacedName{Namespace: "kube-system", Name: "a"}, true},
		"in the system namespace":    {"Bursar's own", configMap, types.NamespacedName{Namespace: "sys", Name: "a"}, true},
		"elsewhere":                  {"its name does not matter", configMap, types.NamespacedName{Namespace: "a", Name: "kube-system"}, false},
		"kube-system":                {"a namespace is looked at as what is in it", namespace, types.NamespacedName{Name: "kube-system"}, true},
		"kube-public":                {"so are all of them", namespace, types.NamespacedName{Name: "kube-public"}, true},
		"kube-node-lease":            {"so are all of them", namespace, types.NamespacedName{Name: "kube-node-lease"}, true},
		"the system namespace":       {"so are all of them", namespace, types.NamespacedName{Name: "sys"}, true},
		"another namespace":          {"it is anybody's", namespace, types.NamespacedName{Name: "a"}, false},
		"another kind of namespaces": {"it only has the name", project, types.NamespacedName{Name: "kube-system"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsExempt("sys", tc.kind, tc.object); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
