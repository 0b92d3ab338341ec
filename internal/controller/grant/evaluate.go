package grant

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// result is the result for one grant: active, or the reason why not.
type result struct {
	grant  *quotav1alpha1.ResourceGrant
	reason string
}

// evaluate decides which grants are active. A grant is not if its amounts, added to those of earlier grants, overflow.
func (r *Reconciler) evaluate(grants []*quotav1alpha1.ResourceGrant) ([]ledger.Grant, []result) {
	trial := ledger.New()
	var active []ledger.Grant
	results := make([]result, 0, len(grants))
	for _, grant := range grants {
		entry, err := entryOf(grant)
		if err == nil {
			err = r.Catalog.CheckGrant(&grant.Spec)
		}
		if err == nil {
			err = r.checkNew(grant)
		}
		if err == nil {
			_, err = trial.SetGrant(entry)
		}
		v := result{grant: grant}
		if err != nil {
			v.reason = err.Error()
		} else {
			active = append(active, entry)
		}
		results = append(results, v)
	}
	return active, results
}

// checkNew returns the reason why a grant that is not active yet cannot become active: one of its resource types takes
// nothing new.
func (r *Reconciler) checkNew(grant *quotav1alpha1.ResourceGrant) error {
	if apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
		return nil
	}
	return r.Catalog.CheckNew(grant.Spec.ResourceTypes()...)
}

// entryOf returns a grant in the form of the ledger.
func entryOf(grant *quotav1alpha1.ResourceGrant) (ledger.Grant, error) {
	entry := ledger.Grant{UID: string(grant.UID), Namespace: grant.Namespace, Name: grant.Name, Generation: grant.Generation}
	for _, allowance := range grant.Spec.Allowances {
		selector, err := ledgerstore.SelectorOf(allowance.DimensionSelector)
		if err != nil {
			return entry, fmt.Errorf("allowance of %s: %w", allowance.ResourceType, err)
		}
		var sum ledger.Amount
		for _, bucket := range allowance.Buckets {
			var ok bool
			if sum, ok = sum.Add(ledger.Amount(bucket.Amount)); !ok {
				return entry, fmt.Errorf("the buckets of %s add up to more than can be counted", allowance.ResourceType)
			}
		}
		entry.Allowances = append(entry.Allowances, ledger.Allowance{ResourceType: allowance.ResourceType, Selector: selector, Amount: sum})
	}
	return entry, nil
}
