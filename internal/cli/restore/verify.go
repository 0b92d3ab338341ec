package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/ledger"
)

// poll is the shortest time between two looks at the server. A look that takes long is followed by a rest ten times as
// long, to leave the server its time, but by no more than a tenth of the timeout.
const poll = time.Second

func restAfter(look, timeout time.Duration) time.Duration {
	const rests, looks = 10, 10
	return max(poll, min(rests*look, timeout/looks))
}

// eachClaim calls do with every claim of the server, as of a version or now.
func (r *restorer) eachClaim(ctx context.Context, version string, do func(*quotav1alpha1.ResourceClaim) error) error {
	_, err := quotakinds.Each(ctx, r.caller, r.kinds[claimsName].GroupVersionResource, version, func(object *unstructured.Unstructured) error {
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
	return fmt.Errorf("everything is restored, but after %s: %w; bursar status shows the rest", r.Timeout, waits)
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

// checkLedgers returns an error if a ledger has not observed what the claims of record on the server demand, now and at
// each earlier look. It lists ledgers and claims as of one version of the API server.
//
// The ledger of a busy consumer is always a few claims behind. One that differs is compared again, with the claims as
// of the version that it has observed.
func (r *restorer) checkLedgers(ctx context.Context) error {
	observed, versions, version, err := r.observedNow(ctx)
	if err != nil {
		return err
	}
	if r.firstLook == 0 {
		r.firstLook = version
	}

	now, demanded, err := r.useAt(ctx, version)
	if err != nil {
		return err
	}
	r.report.now = now

	differing, _ := r.compare(observed, demanded)
	for _, consumer := range differing[:min(len(differing), busyMax)] {
		if err := r.compareAsOf(ctx, consumer, versions[consumer], observed); err != nil {
			return err
		}
	}
	_, difference := r.compare(observed, demanded)
	return difference
}

// observedNow returns what all ledgers have observed of claims as of which versions of these, and the version of the
// API server.
func (r *restorer) observedNow(ctx context.Context) (observed use, versions map[quotav1alpha1.ConsumerRef]int64, now int64, err error) {
	observed, versions = use{}, map[quotav1alpha1.ConsumerRef]int64{}
	listed, err := quotakinds.Each(ctx, r.caller, quotav1alpha1.GroupVersion.WithResource("consumerledgers"), "", func(object *unstructured.Unstructured) error {
		stored := &quotav1alpha1.ConsumerLedger{}
		err := backup.Decode(object, stored)
		if err == nil {
			versions[stored.Spec.ConsumerRef], err = observed.addObserved(&stored.Spec)
		}
		if err != nil {
			return fmt.Errorf("decode ledger %s: %w", object.GetName(), err)
		}
		return nil
	})
	if err != nil {
		return nil, nil, 0, err
	}
	version, err := ledger.ParseVersion(listed)
	return observed, versions, int64(version), err
}

// busyMax is how many ledgers each look compares as of their own versions, with a list of all claims for each.
const busyMax = 10

// compareAsOf compares the ledger of a consumer with the claims as of the version that it has observed, if it has done
// that since the first look, and if there was no such comparison before.
func (r *restorer) compareAsOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef, version int64, observed use) error {
	if version <= max(r.firstLook, r.compared[consumer]) {
		return nil
	}
	_, demanded, err := r.useAt(ctx, version)
	if apierrors.IsResourceExpired(err) {
		return nil // the next look has a later version
	}
	if err == nil {
		r.compared[consumer] = version
		_, _ = r.compare(observed.of(consumer), demanded.of(consumer)) // the caller compares all
	}
	return err
}

// useAt returns what the claims of the server hold as of a version, and the part of it that ledgers are to observe.
func (r *restorer) useAt(ctx context.Context, version int64) (all, ofRecord use, err error) {
	all, ofRecord = use{}, use{}
	ids := map[string]bool{}
	err = r.eachClaim(ctx, strconv.FormatInt(version, 10), func(claim *quotav1alpha1.ResourceClaim) error {
		id := claims.IDOf(claimcache.Compact(claim))
		if claims.IsView(claim) || ids[id] { // its object counts, or the other claim of that
			return all.add(claim)
		}
		ids[id] = true
		return errors.Join(all.add(claim), ofRecord.addOfRecord(claim))
	})
	return all, ofRecord, err
}

// compare returns the consumers who have a balance without agreement at this look and each earlier one, and an error
// for the first of these balances.
func (r *restorer) compare(observed, demanded use) (differing []quotav1alpha1.ConsumerRef, first error) {
	all := maps.Clone(observed)
	maps.Copy(all, demanded)
	for _, key := range slices.SortedFunc(maps.Keys(all), compareBalances) {
		if r.agreed[key] {
			continue
		}
		has, held := observed[key], demanded[key]
		if has == held {
			r.agreed[key] = true
			continue
		}
		if len(differing) == 0 || differing[len(differing)-1] != key.consumer {
			differing = append(differing, key.consumer)
		}
		if first == nil {
			first = fmt.Errorf("the ledger of %s has %d of %s for %s, and its claims hold %d in %s", message.Consumer(key.consumer),
				has.amount, key.resourceType, message.Count(has.claims, "claim", "claims"), held.amount, message.Count(held.claims, "claim", "claims"))
		}
	}
	return differing, first
}
