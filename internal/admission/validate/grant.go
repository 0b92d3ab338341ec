package validate

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const allowancesMax = 20

// These marks distinguish the grants of policies and of requests. A policy would change or delete a grant with its
// marks.
var (
	grantMarkLabels      = []string{quotav1alpha1.LabelAutoCreated, quotav1alpha1.LabelPolicy, quotav1alpha1.LabelPolicyUID}
	grantMarkAnnotations = []string{
		quotav1alpha1.AnnotationCreatedBy, quotav1alpha1.AnnotationResourceUID, quotav1alpha1.AnnotationParentContext,
		quotav1alpha1.AnnotationRequest, quotav1alpha1.AnnotationRequestUID,
	}
)

// Grant validates a created (old is nil) or changed grant. Unregistered resource types and consumers of another
// kind are valid: the grant becomes active once the registration fits.
func Grant(old, new *quotav1alpha1.ResourceGrant) field.ErrorList {
	var annotations map[string]string
	if old != nil {
		annotations = old.Annotations
	}
	errs := checkThreshold(field.NewPath("metadata"), annotations, new.Annotations)
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return errs
	}
	path := field.NewPath("spec")
	errs = append(errs, checkAllowances(path.Child("allowances"), new.Spec.Allowances)...)
	return append(errs, checkReference(path.Child("consumerRef"), new.Spec.ConsumerRef)...)
}

// GrantMarks returns an error for each changed mark of a policy's grant. old is nil on a create.
func GrantMarks(old, new *quotav1alpha1.ResourceGrant) field.ErrorList {
	if old == nil {
		old = &quotav1alpha1.ResourceGrant{}
	}
	metadata := field.NewPath("metadata")
	errs := checkMarks(metadata.Child("labels"), grantMarkLabels, old.Labels, new.Labels)
	return append(errs, checkMarks(metadata.Child("annotations"), grantMarkAnnotations, old.Annotations, new.Annotations)...)
}

// checkAllowances validates the allowances of a grant or of its template. Several allowances of one resource type add
// up; their sum must fit an amount.
func checkAllowances(path *field.Path, allowances []quotav1alpha1.Allowance) field.ErrorList {
	errs := checkCount(path, len(allowances), allowancesMax)
	sums := map[string]ledger.Amount{}
	for i, allowance := range allowances[:min(len(allowances), allowancesMax)] {
		at := path.Index(i)
		errs = append(errs, checkResourceType(at.Child("resourceType"), allowance.ResourceType)...)
		errs = append(errs, checkSelector(at.Child("dimensionSelector"), allowance.DimensionSelector)...)
		errs = append(errs, checkBuckets(at.Child("buckets"), allowance, sums)...)
	}
	return errs
}

func checkSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if _, err := ledgerstore.SelectorOf(selector); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}

// checkBuckets validates the amounts of an allowance and adds them to the sums of the grant. It reports an amount
// with an overflow of the sum, and leaves it out.
func checkBuckets(path *field.Path, allowance quotav1alpha1.Allowance, sums map[string]ledger.Amount) field.ErrorList {
	if len(allowance.Buckets) == 0 {
		return field.ErrorList{field.Required(path, "must have at least 1 item")}
	}
	var errs field.ErrorList
	for i, bucket := range allowance.Buckets {
		at := path.Index(i).Child("amount")
		if bucket.Amount < 0 {
			errs = append(errs, field.Invalid(at, bucket.Amount, "must be greater than or equal to 0"))
			continue
		}
		sum, ok := sums[allowance.ResourceType].Add(ledger.Amount(bucket.Amount))
		if !ok {
			errs = append(errs, field.Invalid(at, bucket.Amount, fmt.Sprintf(
				"the amounts that the grant gives of one resource type must add up to at most %d", int64(math.MaxInt64))))
			continue
		}
		sums[allowance.ResourceType] = sum
	}
	return errs
}

// Rules gives controllers the rules of this package, for writes without a webhook review.
type Rules struct{}

// ValidateGrant validates a grant before its creation.
func (Rules) ValidateGrant(grant *quotav1alpha1.ResourceGrant) field.ErrorList {
	return Grant(nil, grant)
}
