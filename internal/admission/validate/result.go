package validate

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// errorsMax bounds the errors in one answer. The next attempt reports the others.
	errorsMax = 50
	// retryAfterSeconds is the wait for clients after a failed lookup.
	retryAfterSeconds = 1
)

// result is the result of validating a request. The zero value allows the request.
type result struct {
	// unknown is the error that kept the validator from deciding.
	unknown error
	// forbidden is the reason why the user may not do this with any object.
	forbidden string
	// errs are the errors in the object.
	errs field.ErrorList
	// warnings are for the user of an allowed request.
	warnings []string
}

// response returns the response in the API server's own form.
func (v result) response(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	switch {
	case v.unknown != nil:
		err := apierrors.NewServiceUnavailable(fmt.Sprintf("%s %q could not be checked: %v; nothing was changed, try again", resource, request.Name, v.unknown))
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
		return errorResponse(err)
	case v.forbidden != "":
		return errorResponse(apierrors.NewForbidden(resource, request.Name, errors.New(v.forbidden)))
	case len(v.errs) > 0:
		kind := schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
		return errorResponse(apierrors.NewInvalid(kind, request.Name, v.errs[:min(len(v.errs), errorsMax)]))
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: v.warnings}
}

// errorResponse answers with the status of an error.
func errorResponse(err *apierrors.StatusError) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &err.ErrStatus}
}

// unexpected answers a review that the webhook configuration does not request.
func unexpected(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	what := schema.GroupVersionKind(request.Kind).String()
	if request.SubResource != "" {
		what += ", subresource " + request.SubResource
	}
	return errorResponse(apierrors.NewBadRequest(fmt.Sprintf("this webhook does not know %s; correct the webhook configuration", what)))
}
