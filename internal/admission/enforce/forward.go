package enforce

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// forwardFunc sends a review to the preferred replica of a consumer. It returns nil if this replica has to decide the
// review itself.
type forwardFunc func(consumer quotav1alpha1.ConsumerRef) *admissionv1.AdmissionResponse

// decideHere is the [forwardFunc] for reviews sent by another replica and for dry runs.
func decideHere(quotav1alpha1.ConsumerRef) *admissionv1.AdmissionResponse { return nil }

// forward sends a review to the preferred replica of a consumer. It returns nil if the other replica cannot answer.
func (h *Handler) forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, body []byte) *admissionv1.AdmissionResponse {
	answer, ok := h.Replicas.Forward(ctx, consumer, path, body)
	if !ok {
		return nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil || review.Response == nil {
		h.Log.Info("another replica gave an invalid answer", "err", err)
		return nil
	}
	return review.Response
}
