package restore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The sequence of an amendment belongs to the ledger of the backup. A new amendment must not find it.
func TestRestoredClaimHasNoAmendment(t *testing.T) {
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		quotav1alpha1.AnnotationResourceUID: "7d4f", quotav1alpha1.AnnotationAmendment: "15",
	}}}
	if err := new(restorer).settleIn(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{quotav1alpha1.AnnotationResourceUID: "7d4f"}, claim.Annotations); diff != "" {
		t.Errorf("the annotations (-want +got):\n%s", diff)
	}
}
