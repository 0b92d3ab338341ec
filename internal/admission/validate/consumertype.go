package validate

import (
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
)

// fillConsumerType answers the create or update of a registration with only one of consumerType and consumerTypeRef.
// Its patch sets the other one, so that readers and field selectors find the consumer kind by both names. No field
// manager owns what a webhook sets, so a server-side apply of the one name does not drop the other.
func fillConsumerType(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if request.Kind.Kind != "ResourceRegistration" || request.SubResource != "" {
		return unexpected(request)
	}
	registration, err := decode[quotav1alpha1.ResourceRegistration](request.Object)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}

	consumer, none := registration.Spec.Consumer(), quotav1alpha1.ConsumerTypeRef{}
	var operations []review.PatchOperation
	if consumer.APIGroup == "" || consumer.Kind == "" {
		return review.Allowed() // validation rejects it, once
	}
	if registration.Spec.ConsumerType == none {
		operations = append(operations, review.PatchOperation{Operation: "add", Path: "/spec/consumerType", Value: consumer})
	}
	if registration.Spec.ConsumerTypeRef == none {
		operations = append(operations, review.PatchOperation{Operation: "add", Path: "/spec/consumerTypeRef", Value: consumer})
	}
	return review.Patched(operations...)
}
