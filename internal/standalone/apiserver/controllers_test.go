package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// The garbage collector needs to know the owners of an object, and whether it ends.
func TestOwnership(t *testing.T) {
	now := metav1.Now()
	kept := metav1.ObjectMeta{
		Namespace: "default", Name: "claim", UID: "1", ResourceVersion: "2",
		OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "owner", UID: "3"}},
		Finalizers:      []string{"foregroundDeletion"}, DeletionTimestamp: &now, DeletionGracePeriodSeconds: new(int64(1)),
	}
	full := *kept.DeepCopy()
	full.Labels, full.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	kind := metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Claim"}

	got, err := ownership(&metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: full})
	if diff := cmp.Diff(&metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: kept}, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	deleted := cache.DeletedFinalStateUnknown{Key: "default/claim"}
	if got, err := ownership(deleted); got != deleted || err != nil {
		t.Errorf("got %v and %v, want what is no object unchanged", got, err)
	}
}
