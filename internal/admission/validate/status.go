package validate

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// subresourceStatus is the only subresource of Bursar's kinds.
const subresourceStatus = "status"

// grantedClaim validates a write of a claim in the version with a status in the claim. For the same reason as a
// status, only Bursar writes it.
func (w *Webhooks) grantedClaim(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if request.UserInfo.Username == w.Username {
		return result{}.response(request)
	}
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	return errorResponse(apierrors.NewForbidden(resource, request.Name,
		fmt.Errorf("only Bursar writes claims in version %s: use %s", quotav1alpha1.GrantedVersion, quotav1alpha1.GroupVersion.Version)))
}

// status validates an update of an object's status. A status is Bursar's statement: a Granted claim has its charge,
// and amounts count by an Active registration. Therefore no other user may write a status, whatever RBAC allows, not
// even without a change.
func (w *Webhooks) status(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if request.Operation != admissionv1.Update {
		return errorResponse(apierrors.NewBadRequest(fmt.Sprintf("Bursar does not validate a status for operation %q", request.Operation)))
	}
	if request.UserInfo.Username == w.Username {
		return result{}.response(request)
	}
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource + "/" + subresourceStatus}
	return errorResponse(apierrors.NewForbidden(resource, request.Name,
		fmt.Errorf("the status of %s %s is written only by Bursar", request.Kind.Kind, request.Name)))
}
