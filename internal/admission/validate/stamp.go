package validate

import (
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// stampWithdrawal names the withdrawing user of a request.
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

// stampDecision names the deciding user, and makes the decision go with its request.
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

// stampGrant answers the create or update of a grant. Its patch names the creator, or the user of the last change of
// its spec. It keeps the mark of a deletion as it is.
func stampGrant(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if request.Kind.Kind != "ResourceGrant" || request.SubResource != "" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return unexpected(request)
	}
	grant, err := decode[quotav1alpha1.ResourceGrant](request.Object)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}
	before := &quotav1alpha1.ResourceGrant{}
	if request.Operation == admissionv1.Update {
		if before, err = decode[quotav1alpha1.ResourceGrant](request.OldObject); err != nil {
			return errorResponse(apierrors.NewBadRequest(err.Error()))
		}
	}
	hasChanged := request.Operation == admissionv1.Create || !equality.Semantic.DeepEqual(before.Spec, grant.Spec)
	operations := changedBy(request, grant.Annotations, before.Annotations, hasChanged)
	if grant.Annotations == nil && len(operations) > 0 {
		grant.Annotations = map[string]string{} // the first operation adds them
	}
	return review.Patched(append(operations, kept(quotav1alpha1.AnnotationDeletedBy, grant.Annotations, before.Annotations)...)...)
}

// checkChangedBy checks the annotations of a grant that name users, in case the API server skipped the webhook that
// sets them. They may be missing then, and name nobody else.
func checkChangedBy(c change[quotav1alpha1.ResourceGrant]) field.ErrorList {
	if c.byBursar {
		return nil
	}
	path := field.NewPath("metadata", "annotations")
	before := map[string]string{}
	hasChanged := c.old == nil
	if c.old != nil {
		before, hasChanged = c.old.Annotations, !equality.Semantic.DeepEqual(c.old.Spec, c.new.Spec)
	}
	var errs field.ErrorList
	if user := c.new.Annotations[quotav1alpha1.AnnotationChangedBy]; user != "" && user != before[quotav1alpha1.AnnotationChangedBy] && !(hasChanged && user == c.username) {
		errs = append(errs, field.Forbidden(path.Key(quotav1alpha1.AnnotationChangedBy), "Bursar names who changed a grant: leave it out"))
	}
	if mark := c.new.Annotations[quotav1alpha1.AnnotationDeletedBy]; mark != "" && mark != before[quotav1alpha1.AnnotationDeletedBy] {
		errs = append(errs, field.Forbidden(path.Key(quotav1alpha1.AnnotationDeletedBy), "Bursar names who deletes a grant: leave it out"))
	}
	return errs
}

const annotationsPath = "/metadata/annotations"

func annotationPath(name string) string {
	return annotationsPath + "/" + strings.ReplaceAll(name, "/", "~1")
}

// kept returns the patch to keep an annotation of an object.
func kept(name string, annotations, before map[string]string) []review.PatchOperation {
	return annotated(name, annotations, before[name])
}

// annotated returns the patch to give an object's annotation a value, or to remove it if the value is empty.
func annotated(name string, annotations map[string]string, value string) []review.PatchOperation {
	present, isSet := annotations[name]
	switch {
	case isSet == (value != "") && present == value:
		return nil
	case value == "":
		return []review.PatchOperation{{Operation: "remove", Path: annotationPath(name)}}
	case annotations == nil:
		return []review.PatchOperation{{Operation: "add", Path: annotationsPath, Value: map[string]string{name: value}}}
	default:
		return []review.PatchOperation{{Operation: "add", Path: annotationPath(name), Value: value}}
	}
}

// changedBy returns the patch to name a user on an object: the user of the request if the subject of the annotation
// changed, or else the former one.
func changedBy(request *admissionv1.AdmissionRequest, annotations, before map[string]string, hasChanged bool) []review.PatchOperation {
	if hasChanged {
		return annotated(quotav1alpha1.AnnotationChangedBy, annotations, request.UserInfo.Username)
	}
	return kept(quotav1alpha1.AnnotationChangedBy, annotations, before)
}
