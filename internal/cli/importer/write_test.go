package importer

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// absentObject is an object that somebody has deleted. A patch finds it missing, and an apply creates it.
type absentObject struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	patches []types.PatchType
}

func (a *absentObject) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return a
}

func (a *absentObject) Namespace(string) dynamic.ResourceInterface { return a }

func (a *absentObject) Patch(_ context.Context, name string, how types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	a.patches = append(a.patches, how)
	if how == types.MergePatchType {
		return nil, apierrors.NewNotFound(registrations.GroupResource(), name)
	}
	return nil, nil
}

// TestWriteOfDeletedObject checks that an import makes its own object again if somebody deletes it meanwhile.
func TestWriteOfDeletedObject(t *testing.T) {
	object := objectOf("quota.miloapis.com/v1alpha1", "ResourceRegistration", "", "secrets", nil)
	absent := &absentObject{}
	each := placed{resource: registrations, object: object, change: map[string]any{"spec": map[string]any{"description": "d"}}}
	if err := (&importer{api: absent}).apply(t.Context(), each, false); err != nil {
		t.Fatal(err)
	}
	if want := []types.PatchType{types.MergePatchType, types.ApplyPatchType}; !slices.Equal(absent.patches, want) {
		t.Errorf("the patches are %v, want %v", absent.patches, want)
	}
}
