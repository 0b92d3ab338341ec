package quotareview

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
)

// errNotReady means that this replica cannot answer yet.
var errNotReady = errors.New("the policies are still being loaded")

// Handler returns the mutating webhook of QuotaReviews: the answer is a patch of the status. It denies a create
// without a dry run. Reviews take their turn: see [review.InTurn].
func (r *Reviewer) Handler() http.Handler { return review.InTurn(r.turns, "QuotaReviews", r.respond) }

func (r *Reviewer) respond(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !review.IsDryRun(request) {
		return review.Invalid(
			"Bursar answers a QuotaReview and never stores it: create it with dryRun=All, as kubectl create --dry-run=server -o yaml and bursar plan do")
	}
	var asked struct {
		Spec quotav1alpha1.QuotaReviewSpec `json:"spec"`
	}
	if err := json.Unmarshal(request.Object.Raw, &asked); err != nil {
		return review.Invalid("the QuotaReview cannot be read: %v", err)
	}

	// Mutating webhooks come before the schema.
	if len(asked.Spec.Objects) > quotav1alpha1.ReviewMax || len(asked.Spec.Requests) > quotav1alpha1.ReviewMax {
		return review.Invalid(
			"a QuotaReview may have %d objects and %d requests: split it", quotav1alpha1.ReviewMax, quotav1alpha1.ReviewMax)
	}

	select {
	case <-r.Ready:
	case <-ctx.Done():
		return review.Undecided(errNotReady, false)
	}

	status, err := r.Review(ctx, request.UserInfo, &asked.Spec)
	if err != nil {
		return review.Undecided(err, false)
	}
	return review.Patched(review.PatchOperation{Operation: "add", Path: "/status", Value: status})
}
