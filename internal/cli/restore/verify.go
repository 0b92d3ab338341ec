package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// poll is the shortest time between two looks at the server. A look that takes long is followed by a rest ten times as
// long, to leave the server its time, but by no more than a tenth of the timeout.
const poll = time.Second

func restAfter(look, timeout time.Duration) time.Duration {
	const rests, looks = 10, 10
	return max(poll, min(rests*look, timeout/looks))
}

// eachClaim calls do with every claim of the server.
func (r *restorer) eachClaim(ctx context.Context, do func(*quotav1alpha1.ResourceClaim) error) error {
	_, err := quotakinds.Each(ctx, r.caller, r.kinds[claimsName].GroupVersionResource, "", func(object *unstructured.Unstructured) error {
		claim := &quotav1alpha1.ResourceClaim{}
		if err := backup.Decode(object, claim); err != nil {
			return fmt.Errorf("decode claim %s: %w", quotakinds.Name(object), err)
		}
		return do(claim)
	})
	return err
}

// verify waits until the restored objects count, and the ledgers agree with the claims. It lists the claims,
// which may be many, only once everything counts.
func (r *restorer) verify(ctx context.Context) error {
	var waits error
	pause := poll
	rest := wait.DelayFunc(func() time.Duration { return pause })
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	err := rest.Until(limited, true, true, func(ctx context.Context) (bool, error) {
		began := time.Now()
		now := r.checkCounting(ctx)
		if now == nil {
			now = r.checkLedgers(ctx)
		}
		pause = restAfter(time.Since(began), r.Timeout)
		if ctx.Err() == nil || waits == nil {
			waits = now // the end of the time is no reason
		}
		return now == nil, nil
	})
	if err == nil {
		r.report.isVerified = true
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.report.now == nil {
		waits = errors.Join(waits, r.checkLedgers(ctx)) // the report compares the use
	}
	return fmt.Errorf("everything is restored, but after %s: %w; Bursar's audit corrects ledgers within its interval, and bursar status shows the rest", r.Timeout, waits)
}

// counts are the conditions of declared objects that have to be as in the backup.
var counts = map[string]string{
	registrations: quotav1alpha1.ConditionActive,
	grants:        quotav1alpha1.ConditionActive,
	"claimcreationpolicies.quota.miloapis.com": quotav1alpha1.ConditionReady,
	"grantcreationpolicies.quota.miloapis.com": quotav1alpha1.ConditionReady,
}

// checkCounting returns an error with the names of objects that counted in the backup, but do not count here.
func (r *restorer) checkCounting(ctx context.Context) error {
	var idle []string
	for resource, condition := range counts {
		kind := r.kinds[resource]
		counted := map[string]bool{}
		err := r.each(kind, func(object *unstructured.Unstructured) error {
			isMadeAgain := quotakinds.IsFromPolicy(object) || object.GetDeletionTimestamp() != nil
			if isTrue, _ := hasCondition(object, condition); isTrue && !isMadeAgain {
				counted[quotakinds.Name(object)] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = quotakinds.Each(ctx, r.caller, kind.GroupVersionResource, "", func(object *unstructured.Unstructured) error {
			isTrue, message := hasCondition(object, condition)
			if counted[quotakinds.Name(object)] && !isTrue {
				idle = append(idle, fmt.Sprintf("%s %s is not %s: %s", kind.Kind, quotakinds.Name(object), condition, message))
			}
			if adoption, _, _ := unstructured.NestedString(object.Object, "status", "adoption", "state"); isTrue && adoption == string(quotav1alpha1.AdoptionRunning) { //nolint:errcheck // the schema has a text there
				idle = append(idle, fmt.Sprintf("%s %s still adopts objects", kind.Kind, quotakinds.Name(object)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.Sort(idle)
	return errors.New(some(idle))
}

// hasCondition reports whether an object has a condition for its present generation, and the condition's message.
func hasCondition(object *unstructured.Unstructured, name string) (isTrue bool, message string) {
	var status struct {
		Status struct {
			Conditions         []metav1.Condition `json:"conditions"`
			ObservedGeneration int64              `json:"observedGeneration"`
		} `json:"status"`
	}
	if err := backup.Decode(object, &status); err != nil {
		return false, err.Error()
	}
	condition := apimeta.FindStatusCondition(status.Status.Conditions, name)
	if condition == nil {
		return false, "Bursar has not reconciled it yet"
	}
	return condition.Status == metav1.ConditionTrue, condition.Message
}

// checkLedgers returns an error if a ledger differs from the claims on the server.
func (r *restorer) checkLedgers(ctx context.Context) error {
	held, err := r.useOfServer(ctx)
	if err != nil {
		return err
	}
	recorded := map[balance]sum{}
	_, err = quotakinds.Each(ctx, r.caller, quotav1alpha1.GroupVersion.WithResource("consumerledgers"), "", func(object *unstructured.Unstructured) error {
		return usedByLedger(object, recorded)
	})
	if err != nil {
		return err
	}
	r.report.now = held.sums
	return compareSums(held.sums, recorded)
}

// compareSums returns an error if the ledgers have more or less in use than the claims hold.
func compareSums(held, recorded map[balance]sum) error {
	both := map[balance]sum{}
	maps.Copy(both, held)
	maps.Copy(both, recorded)
	for _, key := range slices.SortedFunc(maps.Keys(both), compareBalances) {
		if recorded[key] != held[key] {
			return fmt.Errorf("the ledger of %s has %d of %s for %s, and its claims hold %d in %s", message.Consumer(key.consumer), recorded[key].amount,
				key.resourceType, message.Count(recorded[key].claims, "claim", "claims"), held[key].amount, message.Count(held[key].claims, "claim", "claims"))
		}
	}
	return nil
}

func compareBalances(a, b balance) int {
	return cmp.Or(cmp.Compare(a.consumer.Kind, b.consumer.Kind), cmp.Compare(a.consumer.Namespace, b.consumer.Namespace), cmp.Compare(a.consumer.Name, b.consumer.Name),
		cmp.Compare(a.consumer.APIGroup, b.consumer.APIGroup), cmp.Compare(a.resourceType, b.resourceType), a.dimensions.Compare(b.dimensions))
}
