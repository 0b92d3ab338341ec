package validate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// mutated is the part of a claim for the mutation.
type mutated struct {
	metav1.ObjectMeta `json:"metadata"`
	// Spec is decoded separately, because validation reports its errors.
	Spec json.RawMessage `json:"spec"`
}

// complete answers the create or update of a claim. Its patch adds a missing finalizer and the labels of the consumer
// and the user. So a claim replaced by its original manifest has them again.
func complete(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := quotav1alpha1.GroupVersion.WithKind("ResourceClaim")
	isWrite := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if request.Kind != metav1.GroupVersionKind(kind) || request.SubResource != "" || !isWrite {
		return unexpected(request)
	}
	claim, err := decode[mutated](request.Object)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}
	needsFinalizer, old := !claimcache.HasFinalizer(claim), &metav1.PartialObjectMetadata{}
	if request.Operation == admissionv1.Update {
		if old, err = decode[metav1.PartialObjectMetadata](request.OldObject); err != nil {
			return errorResponse(apierrors.NewBadRequest(err.Error()))
		}
		// Nobody can add a finalizer to a claim under deletion. Validation decides who may remove it.
		needsFinalizer = needsFinalizer && claim.DeletionTimestamp == nil && claimcache.HasFinalizer(old)
	}
	var operations []review.PatchOperation
	if needsFinalizer {
		operations = append(operations, addFinalizer(claim.Finalizers))
	}
	operations = append(operations, labelConsumer(claim)...)
	isAsked := request.Operation == admissionv1.Create || claim.Annotations[quotav1alpha1.AnnotationResize] != old.Annotations[quotav1alpha1.AnnotationResize]
	operations = append(operations, changedBy(request, claim.Annotations, old.Annotations, isAsked)...)
	return review.Patched(operations...)
}

func addFinalizer(others []string) review.PatchOperation {
	if len(others) == 0 {
		return review.PatchOperation{Operation: "add", Path: "/metadata/finalizers", Value: []string{quotav1alpha1.FinalizerQuotaRelease}}
	}
	return review.PatchOperation{Operation: "add", Path: "/metadata/finalizers/-", Value: quotav1alpha1.FinalizerQuotaRelease}
}

// labelConsumer sets the labels of a claim's consumer if they are missing or differ.
func labelConsumer(claim *mutated) []review.PatchOperation {
	var spec struct {
		ConsumerRef quotav1alpha1.ConsumerRef `json:"consumerRef"`
	}
	if err := json.Unmarshal(claim.Spec, &spec); err != nil {
		return nil
	}
	labels := claims.ConsumerLabels(spec.ConsumerRef)
	if len(labels) > 0 && claim.Labels == nil {
		return []review.PatchOperation{{Operation: "add", Path: "/metadata/labels", Value: labels}}
	}
	var operations []review.PatchOperation
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value, isSet := claim.Labels[key]; !isSet || value != labels[key] {
			operations = append(operations, review.PatchOperation{
				Operation: "add", Path: "/metadata/labels/" + strings.ReplaceAll(key, "/", "~1"), Value: labels[key],
			})
		}
	}
	return operations
}
