// Package kit has helpers for tests of whole servers.
package kit

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

type (
	// Amounts are amounts by resource type.
	Amounts map[string]int64
	// Charges are amounts by the name of the paying consumer.
	Charges map[string]Amounts
)

// Agreement is the expected state of claims, ledgers and buckets.
type Agreement struct {
	// Limits are the limits of the consumers to look at. Others are ignored.
	Limits Charges
	// Objects are the charges for each existing object, by its UID.
	Objects map[types.UID]Charges
	// Direct permits claims of no object, as services make them: granted ones count.
	Direct bool
	// Overdraft permits use beyond the limit, as objects without a review do.
	Overdraft bool
}

// Check returns nil if each object has one granted claim for each consumer that pays for it, and there is no other
// claim. Ledgers, with nothing in flight, and buckets must agree with this. A test calls Check until they do.
func (a Agreement) Check(ctx context.Context, api client.Reader) error {
	var claims quotav1alpha1.ResourceClaimList
	var ledgers quotav1alpha1.ConsumerLedgerList
	var buckets quotav1alpha1.AllowanceBucketList
	if err := errors.Join(api.List(ctx, &claims), api.List(ctx, &ledgers), api.List(ctx, &buckets)); err != nil {
		return err
	}
	used, err := a.usage(claims.Items)
	if err != nil {
		return err
	}
	return errors.Join(a.checkLedgers(ledgers.Items, used), a.checkBuckets(buckets.Items, used))
}

// account is one resource type of a consumer.
type account struct{ consumer, resourceType string }

// usage is the amount and the number of claims in an account.
type usage struct{ amount, claims int64 }

// usage adds up the granted claims, and compares them with the objects.
func (a Agreement) usage(claims []quotav1alpha1.ResourceClaim) (map[account]usage, error) {
	used := map[account]usage{}
	unpaid := map[string]Amounts{}
	key := func(uid types.UID, consumer string) string { return string(uid) + " of " + consumer }
	for uid, charges := range a.Objects {
		for consumer, amounts := range charges {
			unpaid[key(uid, consumer)] = amounts
		}
	}
	for i := range claims {
		claim := &claims[i]
		consumer := claim.Spec.ConsumerRef.Name
		if _, known := a.Limits[consumer]; !known {
			continue
		}
		isGranted := apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
		if uid := types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID]); uid != "" || !a.Direct {
			want, ok := unpaid[key(uid, consumer)]
			if !ok {
				return nil, fmt.Errorf("claim %s/%s for %s is the second of its object, or its object is not charged or does not exist", claim.Namespace, claim.Name, consumer)
			}
			delete(unpaid, key(uid, consumer))
			if got := requested(claim); !isGranted || claim.DeletionTimestamp != nil || !maps.Equal(got, want) {
				return nil, fmt.Errorf("claim %s/%s requests %v, want %v; granted %t, deleted %v, %+v", claim.Namespace, claim.Name, got, want, isGranted, claim.DeletionTimestamp, claim.Status)
			}
		}
		if !isGranted {
			continue
		}
		for resourceType, amount := range requested(claim) {
			holder := account{consumer, resourceType}
			used[holder] = usage{used[holder].amount + amount, used[holder].claims + 1}
		}
	}
	for missing, amounts := range unpaid {
		return nil, fmt.Errorf("%d claims are missing, one of them is that of object %s for %v", len(unpaid), missing, amounts)
	}
	return used, nil
}

// requested returns the total request of a claim.
func requested(claim *quotav1alpha1.ResourceClaim) Amounts {
	amounts := Amounts{}
	for _, request := range claim.Spec.Requests {
		amounts[request.ResourceType] += request.Amount
	}
	return amounts
}

func (a Agreement) checkLedgers(ledgers []quotav1alpha1.ConsumerLedger, used map[account]usage) error {
	recorded := map[account]usage{}
	seen := map[string]bool{}
	for i := range ledgers {
		ledger := &ledgers[i].Spec
		consumer := ledger.ConsumerRef.Name
		if _, known := a.Limits[consumer]; !known {
			continue
		}
		if seen[consumer] {
			return fmt.Errorf("%s has two ledgers", consumer)
		}
		seen[consumer] = true
		if len(ledger.Reservations) > 0 {
			return fmt.Errorf("in the ledger of %s are in flight: reservations %+v", consumer, ledger.Reservations)
		}
		for _, observed := range ledger.Observations {
			for _, demand := range observed.Demands {
				holder := account{consumer, demand.ResourceType}
				recorded[holder] = usage{recorded[holder].amount + demand.Amount, recorded[holder].claims + demand.Objects}
			}
		}
	}
	maps.DeleteFunc(recorded, func(_ account, u usage) bool { return u == usage{} })
	if !maps.Equal(recorded, used) {
		return fmt.Errorf("the ledgers record %+v, and claims hold %+v", recorded, used)
	}
	return nil
}

func (a Agreement) checkBuckets(buckets []quotav1alpha1.AllowanceBucket, used map[account]usage) error {
	limits := map[account]int64{}
	for consumer, amounts := range a.Limits {
		for resourceType, limit := range amounts {
			limits[account{consumer, resourceType}] = limit
		}
	}
	for i := range buckets {
		bucket := &buckets[i]
		holder := account{bucket.Spec.ConsumerRef.Name, bucket.Spec.ResourceType}
		if _, known := a.Limits[holder.consumer]; !known {
			continue
		}
		limit, ok := limits[holder]
		if !ok {
			return fmt.Errorf("%+v has a second bucket, or one without a limit", holder)
		}
		delete(limits, holder)
		want, got := used[holder], bucket.Status
		if got.Limit != limit || got.Allocated != want.amount || int64(got.ClaimCount) != want.claims || got.Available != max(0, limit-want.amount) {
			return fmt.Errorf("the bucket of %+v shows %+v, want %+v of %d", holder, got, want, limit)
		}
		if want.amount > limit && !a.Overdraft {
			return fmt.Errorf("%+v holds %+v, more than its limit %d", holder, want, limit)
		}
	}
	if len(limits) > 0 {
		return fmt.Errorf("there are no buckets for %v", limits)
	}
	return nil
}
