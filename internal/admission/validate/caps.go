package validate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// checkCaps rejects a grant above a cap of a registration, if it exceeds the cap alone and at all times of its
// effect. It accepts as much as the former grant gave. The controller of grants finds the grants that exceed a cap
// together with others.
func (w *Webhooks) checkCaps(old, new *quotav1alpha1.ResourceGrant) field.ErrorList {
	var former map[string]ledger.Amount
	if old != nil {
		if equality.Semantic.DeepEqual(old.Spec, new.Spec) {
			return nil
		}
		former = givenAt(&old.Spec, always)
	}
	all := givenAt(&new.Spec, always)
	capped := map[string]*catalog.Registration{}
	for resourceType, sum := range all {
		if r := w.Catalog.Registration(resourceType); r != nil && sum > former[resourceType] && exceeded(r, sum) != "" {
			capped[resourceType] = r
		}
	}
	if len(capped) == 0 || !exceedsAlways(&new.Spec, capped, w.Clock.Now()) {
		return nil
	}
	var errs field.ErrorList
	for _, resourceType := range slices.Sorted(maps.Keys(capped)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "allowances"), field.OmitValueType{}, exceeded(capped[resourceType], all[resourceType])))
	}
	return errs
}

// exceeded names the cap of a registration that an amount exceeds, or is empty.
func exceeded(r *catalog.Registration, amount ledger.Amount) string {
	for _, limit := range []struct {
		name string
		most ledger.Amount
	}{{"maxPerConsumer", ledger.Amount(r.MaxPerConsumer)}, {"maxTotal", ledger.Amount(r.MaxTotal)}} {
		if limit.most > 0 && amount > limit.most {
			return fmt.Sprintf("the grant gives %s of %s, and %s of ResourceRegistration %s is %s: give at most that, or raise the cap first",
				message.Amount(amount, r), r.ResourceType, limit.name, r.Name, message.Amount(limit.most, r))
		}
	}
	return ""
}

// exceedsAlways reports whether a grant exceeds a cap at every time of its effect from now on. Its allowances may
// have different periods.
func exceedsAlways(spec *quotav1alpha1.ResourceGrantSpec, capped map[string]*catalog.Registration, now time.Time) bool {
	exceeds := false
	for _, at := range changes(spec, now) {
		given := givenAt(spec, func(a *quotav1alpha1.Allowance) bool { return spec.Counts(a, at) })
		if len(given) == 0 {
			continue
		}
		exceeds = false
		for resourceType, r := range capped {
			exceeds = exceeds || exceeded(r, given[resourceType]) != ""
		}
		if !exceeds {
			return false
		}
	}
	return exceeds
}

// changes returns now and the later times at which the grant has other allowances in effect.
func changes(spec *quotav1alpha1.ResourceGrantSpec, now time.Time) []time.Time {
	times := []time.Time{now}
	for i := range spec.Allowances {
		p := spec.PeriodOf(&spec.Allowances[i])
		if p.NotBefore != nil && now.Before(p.NotBefore.Time) {
			times = append(times, p.NotBefore.Time)
		}
		if p.NotAfter != nil && now.Before(p.NotAfter.Time) {
			times = append(times, p.NotAfter.Time)
		}
	}
	return times
}

func always(*quotav1alpha1.Allowance) bool { return true }

// givenAt returns the sums of the allowances that count, by resource type.
func givenAt(spec *quotav1alpha1.ResourceGrantSpec, counts func(*quotav1alpha1.Allowance) bool) map[string]ledger.Amount {
	given := map[string]ledger.Amount{}
	for i := range spec.Allowances {
		a := &spec.Allowances[i]
		if !counts(a) {
			continue
		}
		sum := given[a.ResourceType]
		for _, bucket := range a.Buckets {
			var ok bool
			if sum, ok = sum.Add(ledger.Amount(bucket.Amount)); !ok {
				sum = ledger.AmountMax
			}
		}
		given[a.ResourceType] = sum
	}
	return given
}
