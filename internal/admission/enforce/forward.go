package enforce

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

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
	return h.responseIn(answer)
}

// answerElsewhere answers a review that this replica cannot decide: by another replica, or else with a request to try
// again. To admit the object would let it pass uncharged.
func (h *Handler) answerElsewhere(ctx context.Context, request *admissionv1.AdmissionRequest, path string, body []byte) *admissionv1.AdmissionResponse {
	if answer, ok := h.Replicas.ForwardToAny(ctx, path, body); ok {
		if response := h.responseIn(answer); response != nil {
			return response
		}
	}
	policy := h.undecidable(request)
	h.Log.Info("cannot decide a request, because a policy is not in effect here", "policy", policy, "kind", request.Kind.Kind)
	return tryAgain(fmt.Errorf("ClaimCreationPolicy %s applies, and no replica of Bursar that answers has it in effect; its condition Ready has the reason", policy))
}

// responseIn returns the response in the answer of another replica, or nil if it is invalid.
func (h *Handler) responseIn(answer []byte) *admissionv1.AdmissionResponse {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil || review.Response == nil {
		h.Log.Info("another replica gave an invalid answer", "err", err)
		return nil
	}
	return review.Response
}

// waitDecidable waits for a moment until this replica knows all policies that may decide a request. It returns the name
// of one that it still does not know, or "".
func (h *Handler) waitDecidable(ctx context.Context, request *admissionv1.AdmissionRequest) (policy string) {
	const poll = 10 * time.Millisecond
	// An error means that the time is over, and policy is still set.
	_ = wait.PollUntilContextTimeout(ctx, poll, forwardedTimeout, true, func(context.Context) (bool, error) {
		policy = h.undecidable(request)
		return policy == "", nil
	})
	return policy
}

func (h *Handler) undecidable(request *admissionv1.AdmissionRequest) string {
	return h.Catalog.Undecidable(schema.GroupVersionKind(request.Kind), request.Operation == admissionv1.Update)
}
