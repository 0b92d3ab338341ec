package enforce

import (
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/plan"
)

// retryAfterSeconds is what clients are told to wait when nothing could be decided.
const retryAfterSeconds = 1

func allowed() *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// refuse says no, with a sentence for the user.
func refuse(code int32, reason metav1.StatusReason, format string, args ...any) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
	}}
}

// exceeded refuses because quota is used up.
func exceeded(message string) *admissionv1.AdmissionResponse {
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", message)
}

// undecidable refuses because a policy, or what it made of this object, is at fault.
func undecidable(policy string, err error) *admissionv1.AdmissionResponse {
	if plan.IsTransient(err) {
		return undecided(err)
	}
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", notApplicable(policy, err))
}

// undecided refuses because no decision could be had right now. It never says that quota is
// used up, because nobody knows.
func undecided(err error) *admissionv1.AdmissionResponse {
	code, reason := int32(http.StatusServiceUnavailable), metav1.StatusReasonServiceUnavailable
	if errors.Is(err, ledgerstore.ErrBusy) {
		code, reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	}
	response := refuse(code, reason, "quota could not be decided: %v; nothing was changed, try again", err)
	response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	return response
}

// alreadyExists answers for the API server what it would answer itself, before anything is charged.
func alreadyExists(request *admissionv1.AdmissionRequest, name string) *admissionv1.AdmissionResponse {
	resource := request.Resource.Resource
	if request.Resource.Group != "" {
		resource += "." + request.Resource.Group
	}
	response := refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", resource, name)
	response.Result.Details = &metav1.StatusDetails{
		Group: request.Resource.Group,
		Kind:  request.Resource.Resource,
		Name:  name,
	}
	return response
}
