package grant

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// result is the result for one grant at a time: its condition Active.
type result struct {
	grant  *quotav1alpha1.ResourceGrant
	at     time.Time
	active metav1.Condition
}

// evaluate decides which grants are active at a time. A grant is not if its amounts, added to those of earlier grants,
// overflow.
func (r *Reconciler) evaluate(grants []*quotav1alpha1.ResourceGrant, now time.Time) ([]ledger.Grant, []result) {
	trial := ledger.New()
	var active []ledger.Grant
	results := make([]result, 0, len(grants))
	for _, grant := range grants {
		entry, err := ledgerstore.GrantOf(grant, now)
		if err == nil {
			err = r.Catalog.CheckGrant(&grant.Spec)
		}
		counts := err == nil && len(entry.Allowances) > 0
		if counts {
			if err = r.checkNew(grant); err == nil {
				_, err = trial.SetGrant(entry)
			}
		}
		v := result{grant: grant, at: now}
		switch {
		case err != nil:
			v.active = inactive(quotav1alpha1.ReasonValidationFailed, err.Error())
		case !counts:
			v.active = outOfPeriod(grant, now)
		default:
			v.active = isActive(grant, len(entry.Allowances), grant.Spec.NextEnd(now))
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

// isActive returns the condition of a grant of which some allowances count.
func isActive(grant *quotav1alpha1.ResourceGrant, counting int, nextEnd time.Time) metav1.Condition {
	text := fmt.Sprintf("%s %s may use what is granted", grant.Spec.ConsumerRef.Kind, grant.Spec.ConsumerRef.Name)
	if all := len(grant.Spec.Allowances); counting < all {
		text += fmt.Sprintf(": %d of %d allowances count now", counting, all)
	}
	if !nextEnd.IsZero() {
		text += ", until " + inUTC(nextEnd)
	}
	return metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantActive, Message: text}
}

// outOfPeriod returns the condition of a grant of which no allowance counts at this time.
func outOfPeriod(grant *quotav1alpha1.ResourceGrant, now time.Time) metav1.Condition {
	if next := grant.Spec.NextBegin(now); !next.IsZero() {
		return inactive(quotav1alpha1.ReasonNotYetValid, "the grant counts from "+inUTC(next)+" on")
	}
	return inactive(quotav1alpha1.ReasonExpired, "the grant is over. "+adviceOn(grant))
}

func inactive(reason, message string) metav1.Condition {
	return metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// inUTC writes a time as manifests do.
func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }
