package grant

import (
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// result is the result for one grant at a time: its condition Active.
type result struct {
	grant  *quotav1alpha1.ResourceGrant
	at     time.Time
	active metav1.Condition
	// state is how far the grant is from its effect.
	state progress.State
	// waitsFor are the sums the consumer waits to have, of resource types without room for the grant.
	waitsFor sums
	// isNotAllowed is set if the registrations do not allow the grant.
	isNotAllowed bool
}

// notAllowed is the reason why the registrations do not allow a grant.
type notAllowed struct{ error }

// closing is the reason why a registration under deletion does not allow a new grant.
type closing struct{ error }

// evaluate decides which grants are active at a time, and returns the entries for the ledger. A grant is not active if
// its amounts, added to those of earlier grants, overflow or exceed a cap. The entry of a changed grant beyond a cap
// stays as it is.
func (r *Reconciler) evaluate(grants []*quotav1alpha1.ResourceGrant, now time.Time, caps *caps) ([]ledger.Grant, []result) {
	entries, errs := make([]ledger.Grant, len(grants)), make([]error, len(grants))
	for i, grant := range grants {
		if entries[i], errs[i] = r.entryOf(grant, now, caps.holds(grant)); errs[i] == nil {
			caps.expect(entries[i])
		}
	}
	trial := ledger.New()
	var active []ledger.Grant
	results := make([]result, 0, len(grants))
	for i, grant := range grants {
		entry, err, counts := entries[i], errs[i], len(entries[i].Allowances) > 0
		var reached *capReached
		if err == nil && counts {
			entry, reached, err = admit(trial, entry, caps)
		}
		v := result{grant: grant, at: now, isNotAllowed: errors.As(err, &notAllowed{})}
		switch {
		case err != nil:
			v.active, v.state = inactive(quotav1alpha1.ReasonValidationFailed, err.Error()), progress.Stalled
			if entry.Allowances = nil; v.isNotAllowed || errors.As(err, &closing{}) {
				v.state = progress.Waiting // for its registrations
			}
		case reached != nil:
			v.state = progress.Waiting
			v.active = inactive(quotav1alpha1.ReasonCapReached, reached.message())
			if reached.sum > 0 {
				v.waitsFor = sums{reached.registration.ResourceType: reached.sum}
			}
		case !counts:
			v.active, v.state = outOfPeriod(grant, now)
		default:
			v.active = isActive(grant, len(entry.Allowances), grant.Spec.NextEnd(now))
		}
		if caps.decide(entry); len(entry.Allowances) > 0 {
			active = append(active, entry)
		}
		results = append(results, v)
	}
	return active, results
}

// entryOf returns the entry of a grant for the ledger, or the reason why the grant cannot count.
func (r *Reconciler) entryOf(grant *quotav1alpha1.ResourceGrant, now time.Time, isHeld bool) (ledger.Grant, error) {
	entry, err := ledgerstore.GrantOf(grant, now)
	if err == nil {
		if problem := r.Catalog.CheckGrant(&grant.Spec); problem != nil {
			err = notAllowed{problem}
		}
	}
	if err == nil && len(entry.Allowances) > 0 && !isHeld {
		if problem := r.checkNew(grant); problem != nil {
			err = closing{problem}
		}
	}
	return entry, err
}

// admit adds an entry to a ledger. If it exceeds a cap, admit adds the held entry instead, or one without allowances.
func admit(trial *ledger.Ledger, entry ledger.Grant, caps *caps) (ledger.Grant, *capReached, error) {
	if _, err := trial.SetGrant(entry); err != nil {
		return entry, nil, err
	}
	reached := caps.admit(entry)
	if reached == nil {
		return entry, nil, nil
	}
	held, isHeld := caps.held[entry.UID]
	if !isHeld {
		trial.RemoveGrant(entry.UID)
		entry.Allowances = nil
		return entry, reached, nil
	}
	reached.isHeld = true
	_, err := trial.SetGrant(held)
	return held, reached, err
}

// checkNew returns the reason against activating a grant: one of its resource types takes nothing new. An active grant
// has none.
func (r *Reconciler) checkNew(grant *quotav1alpha1.ResourceGrant) error {
	if apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
		return nil
	}
	return r.Catalog.CheckNew(grant.Spec.ResourceTypes()...)
}

// isActive returns the condition of a grant with some counting allowances.
func isActive(grant *quotav1alpha1.ResourceGrant, counting int, nextEnd time.Time) metav1.Condition {
	text := "ResourceGrant is active" // tests of platforms compare it as a whole
	if all := len(grant.Spec.Allowances); counting < all {
		verb := "count"
		if counting == 1 {
			verb = "counts"
		}
		text += fmt.Sprintf(": %d of %d allowances %s now", counting, all, verb)
	}
	if !nextEnd.IsZero() {
		text += ", until " + inUTC(nextEnd)
	}
	return metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonGrantActive, Message: text}
}

// outOfPeriod returns the condition of a grant without a counting allowance at this time.
func outOfPeriod(grant *quotav1alpha1.ResourceGrant, now time.Time) (metav1.Condition, progress.State) {
	if next := grant.Spec.NextBegin(now); !next.IsZero() {
		return inactive(quotav1alpha1.ReasonNotYetValid, "the grant counts from "+inUTC(next)+" on"), progress.Waiting
	}
	return inactive(quotav1alpha1.ReasonExpired, "the grant is over. "+adviceOn(grant)), progress.Stalled
}

func inactive(reason, message string) metav1.Condition {
	return metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// inUTC writes a time as manifests do.
func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }
