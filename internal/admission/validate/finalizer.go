package validate

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
)

// patchOperation is one operation of a JSON patch.
type patchOperation struct {
	Operation string `json:"op"`
	Path      string `json:"path"`
	Value     any    `json:"value"`
}

// finalize answers the create of a claim with a patch that puts the finalizer on it, if it has none.
func finalize(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := quotav1alpha1.GroupVersion.WithKind("ResourceClaim")
	if request.Kind != metav1.GroupVersionKind(kind) || request.SubResource != "" || request.Operation != admissionv1.Create {
		return unexpected(request)
	}
	claim, err := decode[metav1.PartialObjectMetadata](request.Object)
	if err != nil {
		return refused(apierrors.NewBadRequest(err.Error()))
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if claimcache.HasFinalizer(claim) {
		return response
	}
	patch, err := json.Marshal([]patchOperation{addFinalizer(claim.Finalizers)})
	if err != nil {
		return refused(apierrors.NewInternalError(fmt.Errorf("encode the finalizer's patch: %w", err)))
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &patchType
	return response
}

func addFinalizer(others []string) patchOperation {
	if len(others) == 0 {
		return patchOperation{"add", "/metadata/finalizers", []string{quotav1alpha1.FinalizerQuotaRelease}}
	}
	return patchOperation{"add", "/metadata/finalizers/-", quotav1alpha1.FinalizerQuotaRelease}
}
