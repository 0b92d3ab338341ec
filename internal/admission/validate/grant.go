package validate

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

const allowancesMax = 20

// Grant tells everything that is wrong with a grant that is created (old is nil) or changed.
// Resource types that are not registered and consumers of another kind are not wrong: the grant
// becomes active when the registration fits.
func Grant(old, new *quotav1alpha1.ResourceGrant) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	path := field.NewPath("spec")
	errs := checkAllowances(path.Child("allowances"), new.Spec.Allowances)
	return append(errs, checkReference(path.Child("consumerRef"), new.Spec.ConsumerRef)...)
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
