package enforce

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// isBusy reports whether an error means that too much is in flight.
func isBusy(err error) bool {
	return errors.Is(err, ledgerstore.ErrBusy) || isTooMuchHeld(err) || errors.Is(err, errHeld)
}

// isTooMuchHeld reports whether an error means that the requester has to leave quota to others.
func isTooMuchHeld(err error) bool {
	return errors.Is(err, ledgerstore.ErrTooMuchHeld) || errors.Is(err, errFailedLately)
}

// alreadyExists gives the API server's answer for an existing name, before any charge.
func alreadyExists(request *admissionv1.AdmissionRequest, name string) *admissionv1.AdmissionResponse {
	resource := request.Resource.Resource
	if request.Resource.Group != "" {
		resource += "." + request.Resource.Group
	}
	response := review.Denied(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", resource, name)
	response.Result.Details = &metav1.StatusDetails{
		Group: request.Resource.Group,
		Kind:  request.Resource.Resource,
		Name:  name,
	}
	return response
}
