package validate

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

const requestsMax = 20

// These marks distinguish Bursar's own claims. If users could set them, they would get a claim without a charge that
// counts as charged.
var (
	markLabels      = []string{quotav1alpha1.LabelAutoCreated, quotav1alpha1.LabelPolicy, quotav1alpha1.LabelView}
	markAnnotations = []string{
		quotav1alpha1.AnnotationCreatedBy,
		quotav1alpha1.AnnotationResourceUID,
		quotav1alpha1.AnnotationSuperseded,
	}
)

// Claim validates a created (old is nil) or changed claim. byBursar is set for requests of Bursar itself: only Bursar
// may set the marks of a policy's claim and remove the finalizer. Unregistered resource types are valid: Bursar
// decides the claim after their registration.
func Claim(old, new *quotav1alpha1.ResourceClaim, byBursar bool) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = checkClaimSpec(field.NewPath("spec"), &new.Spec)
	} else {
		errs = checkClaimChange(field.NewPath("spec"), old, new)
	}
	if byBursar {
		return errs
	}
	metadata := field.NewPath("metadata")
	if old == nil {
		old = &quotav1alpha1.ResourceClaim{}
	}
	errs = append(errs, checkMarks(metadata.Child("labels"), markLabels, old.Labels, new.Labels)...)
	errs = append(errs, checkMarks(metadata.Child("annotations"), markAnnotations, old.Annotations, new.Annotations)...)
	errs = append(errs, checkResize(metadata.Child("annotations").Key(quotav1alpha1.AnnotationResize), old, new)...)
	errs = append(errs, checkRelease(metadata.Child("annotations").Key(quotav1alpha1.AnnotationRelease), old, new)...)
	errs = append(errs, checkOwners(metadata.Child("ownerReferences"), old, new)...)
	if claimcache.HasFinalizer(old) && !claimcache.HasFinalizer(new) {
		errs = append(errs, field.Forbidden(metadata.Child("finalizers"),
			quotav1alpha1.FinalizerQuotaRelease+" is removed only by Bursar, once the claim is deleted and its charge returned"))
	}
	return errs
}

// checkResize validates a new resize annotation: the new requests of the claim.
func checkResize(path *field.Path, old, new *quotav1alpha1.ResourceClaim) field.ErrorList {
	before, encoded := old.Annotations[quotav1alpha1.AnnotationResize], new.Annotations[quotav1alpha1.AnnotationResize]
	if encoded == before {
		return nil
	}
	if claimcache.IsFromPolicy(new) {
		return field.ErrorList{field.Forbidden(path, "the amounts of a policy's claim follow its object")}
	}
	if encoded == "" {
		return nil
	}
	var requests []quotav1alpha1.ResourceRequest
	unknown, err := json.UnmarshalStrict([]byte(encoded), &requests)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be JSON in the form of spec.requests: "+err.Error())}
	}
	return checkRequests(path, requests)
}

// checkRelease validates a new release annotation. It makes a claim release its charge before the deletion of its
// object.
func checkRelease(path *field.Path, old, new *quotav1alpha1.ResourceClaim) field.ErrorList {
	before, wasSet := old.Annotations[quotav1alpha1.AnnotationRelease]
	after, isSet := new.Annotations[quotav1alpha1.AnnotationRelease]
	switch {
	case isSet == wasSet && after == before || !isSet:
		return nil
	case claimcache.IsFromPolicy(new):
		return field.ErrorList{field.Forbidden(path, "a policy's claim keeps its charge until its object is deleted")}
	case after != "true":
		return field.ErrorList{field.NotSupported(path, after, []string{"true"})}
	default:
		return nil
	}
}

// checkOwners rejects new owners of a policy's claim, so the garbage collector deletes the claim only with its
// object. A writer may remove an owner: the garbage collector does so when somebody deletes the object without its
// dependents. Bursar then deletes the claim itself.
func checkOwners(path *field.Path, old, new *quotav1alpha1.ResourceClaim) field.ErrorList {
	if !claimcache.IsFromPolicy(old) {
		return nil
	}
	for i := range new.OwnerReferences {
		owner := &new.OwnerReferences[i]
		isKept := slices.ContainsFunc(old.OwnerReferences, func(before metav1.OwnerReference) bool {
			return equality.Semantic.DeepEqual(before, *owner)
		})
		if !isKept {
			return field.ErrorList{field.Forbidden(path.Index(i), "the owner of a policy's claim is the object that the claim pays for, and cannot be changed")}
		}
	}
	return nil
}

func checkClaimSpec(path *field.Path, spec *quotav1alpha1.ResourceClaimSpec) field.ErrorList {
	errs := checkReference(path.Child("consumerRef"), spec.ConsumerRef)
	errs = append(errs, checkRequests(path.Child("requests"), spec.Requests)...)
	if !spec.HasObject() {
		return errs
	}
	return append(errs, checkObjectReference(path.Child("resourceRef"), spec.ResourceRef)...)
}

func checkClaimChange(path *field.Path, old, new *quotav1alpha1.ResourceClaim) field.ErrorList {
	errs := immutable(path.Child("consumerRef"), old.Spec.ConsumerRef != new.Spec.ConsumerRef)
	if !equality.Semantic.DeepEqual(old.Spec.Requests, new.Spec.Requests) {
		advice := "this claim is not granted and holds nothing: delete it, and create another"
		if claimcache.StateOf(old) == claimcache.Granted {
			advice = "to resize a granted claim, set the annotation " + quotav1alpha1.AnnotationResize
		}
		errs = append(errs, field.Invalid(path.Child("requests"), field.OmitValueType{}, "field is immutable; "+advice))
	}
	return append(errs, immutable(path.Child("resourceRef"), old.Spec.ResourceRef != new.Spec.ResourceRef)...)
}

// checkMarks rejects every difference in the marks.
func checkMarks(path *field.Path, marks []string, old, new map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, mark := range marks {
		before, was := old[mark]
		after, is := new[mark]
		if was != is || before != after {
			errs = append(errs, field.Forbidden(path.Key(mark), "is set, changed and removed only by Bursar"))
		}
	}
	return errs
}

// checkRequests validates the requests of a claim. Every resource type occurs once, so no amounts add up within a
// claim.
func checkRequests(path *field.Path, requests []quotav1alpha1.ResourceRequest) field.ErrorList {
	errs := checkCount(path, len(requests), requestsMax)
	requests = requests[:min(len(requests), requestsMax)]
	for i, request := range requests {
		at := path.Index(i)
		errs = append(errs, checkResourceType(at.Child("resourceType"), request.ResourceType)...)
		isSame := func(other quotav1alpha1.ResourceRequest) bool { return other.ResourceType == request.ResourceType }
		if request.ResourceType != "" && slices.ContainsFunc(requests[:i], isSame) {
			err := field.Duplicate(at.Child("resourceType"), request.ResourceType)
			err.Detail = "a resource type may be requested once; for other dimensions of it, create another claim"
			errs = append(errs, err)
		}
		if request.Amount <= 0 {
			errs = append(errs, field.Invalid(at.Child("amount"), request.Amount, "must be a positive integer"))
		}
		errs = append(errs, checkDimensions(at.Child("dimensions"), request.Dimensions)...)
	}
	return errs
}

func checkDimensions(path *field.Path, dimensions map[string]string) field.ErrorList {
	if _, err := ledger.NewDimensions(dimensions); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}
