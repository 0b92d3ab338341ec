package enforce

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/plan"
)

// exceeded refuses because quota is used up.
func exceeded(message string) *admissionv1.AdmissionResponse {
	return review.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", message)
}

// undecidable refuses because a policy, or what it made of this object, is at fault.
func undecidable(policy string, err error) *admissionv1.AdmissionResponse {
	if plan.IsTransient(err) {
		return undecided(err)
	}
	return review.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", notApplicable(policy, err))
}

// undecided refuses because no decision could be had right now.
func undecided(err error) *admissionv1.AdmissionResponse {
	return review.Undecided(err, errors.Is(err, ledgerstore.ErrBusy))
}

// alreadyExists answers for the API server what it would answer itself, before anything is charged.
func alreadyExists(request *admissionv1.AdmissionRequest, name string) *admissionv1.AdmissionResponse {
	resource := request.Resource.Resource
	if request.Resource.Group != "" {
		resource += "." + request.Resource.Group
	}
	response := review.Refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", resource, name)
	response.Result.Details = &metav1.StatusDetails{
		Group: request.Resource.Group,
		Kind:  request.Resource.Resource,
		Name:  name,
	}
	return response
}
