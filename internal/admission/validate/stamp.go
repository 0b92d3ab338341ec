package validate

import (
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
)

// stamp answers the create of a QuotaRequest or a QuotaDecision, and the update of a QuotaRequest. Its patch names the
// authenticated user.
func stamp(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	user := userOf(request.UserInfo)
	switch {
	case request.SubResource != "":
		return unexpected(request)
	case request.Kind.Kind == "QuotaRequest" && request.Operation == admissionv1.Create:
		return review.Patched(review.PatchOperation{Operation: "add", Path: "/spec/requester", Value: user})
	case request.Kind.Kind == "QuotaRequest" && request.Operation == admissionv1.Update:
		return stampWithdrawal(request, user)
	case request.Kind.Kind == "QuotaDecision" && request.Operation == admissionv1.Create:
		return stampDecision(request, user)
	default:
		return unexpected(request)
	}
}

// stampWithdrawal names who withdraws a request.
func stampWithdrawal(request *admissionv1.AdmissionRequest, user *quotav1alpha1.RequestUser) *admissionv1.AdmissionResponse {
	before, err := decode[quotav1alpha1.QuotaRequest](request.OldObject)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}
	after, err := decode[quotav1alpha1.QuotaRequest](request.Object)
	switch {
	case err != nil:
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	case !isWithdrawal(before, after):
		return review.Allowed()
	default:
		return review.Patched(review.PatchOperation{Operation: "add", Path: "/spec/withdrawnBy", Value: user})
	}
}

// isWithdrawal reports whether an update withdraws a request.
func isWithdrawal(before, after *quotav1alpha1.QuotaRequest) bool {
	return after.Spec.Withdrawn && !before.Spec.Withdrawn
}

// stampDecision names who decides, and makes the decision go with its request.
func stampDecision(request *admissionv1.AdmissionRequest, user *quotav1alpha1.RequestUser) *admissionv1.AdmissionResponse {
	decision, err := decode[quotav1alpha1.QuotaDecision](request.Object)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}
	ref := decision.Spec.RequestRef
	owner := metav1.OwnerReference{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "QuotaRequest", Name: ref.Name, UID: types.UID(ref.UID)}
	return review.Patched(
		review.PatchOperation{Operation: "add", Path: "/spec/decidedBy", Value: user},
		review.PatchOperation{Operation: "add", Path: "/metadata/ownerReferences", Value: []metav1.OwnerReference{owner}},
	)
}
