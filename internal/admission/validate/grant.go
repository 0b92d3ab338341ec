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

// These marks are what tells a policy's grants from others. The policy would change or delete what
// carries them.
var (
	grantMarkLabels      = []string{quotav1alpha1.LabelAutoCreated, quotav1alpha1.LabelPolicy, quotav1alpha1.LabelPolicyUID}
	grantMarkAnnotations = []string{quotav1alpha1.AnnotationCreatedBy, quotav1alpha1.AnnotationResourceUID, quotav1alpha1.AnnotationParentContext}
)

// Grant tells everything that is wrong with a grant that is created (old is nil) or changed.
// Resource types that are not registered and consumers of another kind are not wrong: the grant
// becomes active when the registration fits.
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

// GrantMarks tells which marks of a policy's grant differ between old, which is nil on a create,
// and new.
func GrantMarks(old, new *quotav1alpha1.ResourceGrant) field.ErrorList {
	if old == nil {
		old = &quotav1alpha1.ResourceGrant{}
	}
	metadata := field.NewPath("metadata")
	errs := checkMarks(metadata.Child("labels"), grantMarkLabels, old.Labels, new.Labels)
	return append(errs, checkMarks(metadata.Child("annotations"), grantMarkAnnotations, old.Annotations, new.Annotations)...)
}

// checkAllowances checks what a grant or the template of one gives. One resource type may be in
// several allowances, which add up; their sum has to stay an amount.
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

// checkBuckets checks the amounts of an allowance and adds them to the sums of the grant. An
// amount that does not fit into the sum is reported and left out of it.
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

// Rules are those of this package, for controllers whose writes no webhook reviews.
type Rules struct{}

// ValidateGrant returns everything that is wrong with a grant that is to be created.
func (Rules) ValidateGrant(grant *quotav1alpha1.ResourceGrant) field.ErrorList {
	return Grant(nil, grant)
}
