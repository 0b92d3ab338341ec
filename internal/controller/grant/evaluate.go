package grant

import (
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
		entry, err := ledgerstore.GrantOf(grant)
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
