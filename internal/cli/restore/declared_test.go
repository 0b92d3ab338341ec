package restore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// declared returns a grant with a change.
func declared(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	grant := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": quotav1alpha1.GroupVersion.String(), "kind": "ResourceGrant",
		"metadata": map[string]any{
			"name": "base", "namespace": "default", "uid": "1", "resourceVersion": "1",
			"labels": map[string]any{"owner": "ann"}, "annotations": map[string]any{quotav1alpha1.AnnotationDisplayName: "Base"},
		},
		"spec": map[string]any{"amount": int64(1)}, "status": map[string]any{"state": "Active"},
	}}
	change(grant)
	return grant
}

// TestIsDeclaredAs compares what people declare, and nothing else.
func TestIsDeclaredAs(t *testing.T) {
	t.Parallel()
	annotate := func(key, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			annotations[key] = value
			u.SetAnnotations(annotations)
		}
	}
	for reason, tt := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"the same object":           {func(*unstructured.Unstructured) {}, true},
		"of another server":         {func(u *unstructured.Unstructured) { u.SetUID("2"); u.SetResourceVersion("9") }, true},
		"with another state":        {func(u *unstructured.Unstructured) { u.Object["status"] = nil }, true},
		"last changed by another":   {annotate(quotav1alpha1.AnnotationChangedBy, "tom"), true},
		"with another spec":         {func(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{"amount": int64(2)} }, false},
		"with another owner":        {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"owner": "tom"}) }, false},
		"without labels":            {func(u *unstructured.Unstructured) { u.SetLabels(nil) }, false},
		"with another name to show": {annotate(quotav1alpha1.AnnotationDisplayName, "More"), false},
	} {
		if got := isDeclaredAs(declared(tt.change), declared(func(*unstructured.Unstructured) {})); got != tt.want {
			t.Errorf("%s: got %v, want %v", reason, got, tt.want)
		}
	}
}

// TestKeepOwn keeps what belongs to the server when an object of the backup replaces another.
func TestKeepOwn(t *testing.T) {
	t.Parallel()
	with := func(annotations map[string]string, finalizers ...string) *unstructured.Unstructured {
		return declared(func(u *unstructured.Unstructured) { u.SetAnnotations(annotations); u.SetFinalizers(finalizers) })
	}
	const record = quotav1alpha1.AnnotationControlPlanes
	for reason, tt := range map[string]struct{ before, existing, want map[string]string }{
		"no record":         {map[string]string{"a": "b"}, nil, map[string]string{"a": "b"}},
		"one in the backup": {map[string]string{"a": "b", record: "far"}, nil, map[string]string{"a": "b"}},
		"one here":          {nil, map[string]string{record: "near", "c": "d"}, map[string]string{record: "near"}},
		"two":               {map[string]string{record: "far"}, map[string]string{record: "near"}, map[string]string{record: "near"}},
	} {
		object := with(tt.before)
		keepOwn(object, with(tt.existing, quotav1alpha1.FinalizerGrants))
		if diff := cmp.Diff(tt.want, object.GetAnnotations()); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", reason, diff)
		}
		if diff := cmp.Diff([]string{quotav1alpha1.FinalizerGrants}, object.GetFinalizers()); diff != "" {
			t.Errorf("%s: finalizers (-want +got):\n%s", reason, diff)
		}
	}
}
