package bucket

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// publish writes the buckets of a consumer: for the resource types in its ledger, and for indexed types no longer in
// the ledger.
func (c *Controller) publish(ctx context.Context, consumer quotav1alpha1.ConsumerRef) error {
	// However it came into the queue.
	if early := c.pace.early(consumer); early > 0 {
		c.queue.AddAfter(consumer, early)
		return nil
	}
	again, err := c.pace.begin(ctx, consumer)
	if err != nil {
		return err
	}
	since, misses := c.lag.take(consumer)
	before := c.index.of(consumer)
	snapshot, err := c.snapshot(ctx, consumer)
	if err == nil {
		err = c.publishLedger(ctx, consumer, snapshot, before, again)
	}
	if err != nil && misses {
		c.lag.changed(consumer, since)
	}
	return err
}

// publishLedger writes the buckets and effective grants of a consumer. again is true for a known consumer: the first
// publication after a start writes only differences, because there may be many consumers.
func (c *Controller) publishLedger(ctx context.Context, consumer quotav1alpha1.ConsumerRef, snapshot *ledger.Ledger, before map[string]indexEntry, again bool) error {
	view := viewOf(snapshot, c.overdueOf(consumer), before)
	for resourceType := range before {
		if _, inLedger := view.quotas[resourceType]; !inLedger {
			view.quotas[resourceType] = emptyQuota(before[resourceType])
		}
	}
	errs := []error{c.deleteStale(ctx, consumer)}
	namespace := c.namespaceOf(consumer)
	exists, err := c.namespaceExists(ctx, namespace, consumer)
	switch {
	case err != nil:
		return errors.Join(append(errs, err)...)
	case !exists:
		c.reportNoNamespace(namespace, consumer, view)
		return errors.Join(errs...)
	}
	for _, resourceType := range slices.Sorted(maps.Keys(view.quotas)) {
		s := c.subjectOf(consumer, resourceType)
		err := c.publishType(ctx, s, view.quotas[resourceType], contributionsTo(resourceType, view.grants), again)
		if err == nil && before[resourceType].needed {
			c.index.made(consumer, resourceType)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// overdueOf returns the overdue reservations of a consumer. If others may become overdue, it has the consumer published
// again: the ledger does not change by then.
func (c *Controller) overdueOf(consumer quotav1alpha1.ConsumerRef) []ledgerstore.InFlight {
	if c.Held == nil {
		return nil
	}
	overdue, mayBecome := c.Held.Overdue(consumer)
	if mayBecome {
		c.queue.AddAfter(consumer, interval)
	}
	return overdue
}

// snapshot copies the ledger of a consumer. Decisions wait only for the copy.
func (c *Controller) snapshot(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*ledger.Ledger, error) {
	var stored ledger.Snapshot
	if err := c.Ledgers.View(ctx, consumer, func(l *ledger.Ledger) { stored = l.Snapshot() }); err != nil {
		return nil, err
	}
	return ledger.Restore(stored)
}

// publishType writes the effective grant of a resource type, and its buckets.
func (c *Controller) publishType(ctx context.Context, s subject, q quota, contributions []contribution, renew bool) error {
	// In this order: a later registration finds the difference in the display.
	c.index.add(s.consumer, s.resourceType, q.sets()...)
	registration := c.Catalog.Registration(s.resourceType)
	c.index.display(s.consumer, s.resourceType, displayOf(registration))

	effective, err := c.effectiveGrant(ctx, s, q.required)
	if err != nil {
		return err
	}
	if effective == nil {
		// A user deleted it, its buckets go with it, and there is nothing to publish.
		c.index.forget(s.consumer, s.resourceType, ledger.Dimensions{})
		return nil
	}
	for _, excess := range q.excess() {
		if err := c.deleteBucket(ctx, s, excess.Dimensions); err != nil {
			return err
		}
	}
	refs, err := c.publishBuckets(ctx, s, effective, q, contributions, registration, renew)
	if err != nil {
		return err
	}
	return c.updateEffectiveGrant(ctx, effective, effectiveStatus(q.account, q.held, contributions, limitRefs(refs), registration))
}

// publishBuckets writes the buckets of a resource type, and returns references to the existing ones. After a failure it
// continues with the others.
func (c *Controller) publishBuckets(ctx context.Context, s subject, effective *quotav1alpha1.EffectiveResourceGrant, q quota, contributions []contribution, registration *catalog.Registration, renew bool) ([]quotav1alpha1.AllowanceBucketRef, error) {
	// The garbage collector deletes new dependents of an owner in deletion. The controller creates the buckets after it
	// has created the owner again.
	create := q.required && effective.DeletionTimestamp.IsZero()
	var refs []quotav1alpha1.AllowanceBucketRef
	var elsewhere []outdated
	var errs []error
	showOne := func(d ledger.Dimensions, status quotav1alpha1.AllowanceBucketStatus, renew bool) {
		setFeature(&status, registration)
		status.Display = displayedBucket(&status, d, registration)
		bucket, err := c.bucket(ctx, s, effective, d, create)
		switch {
		case err != nil:
			errs = append(errs, err)
			return
		case bucket == nil:
			if !q.required && !d.IsZero() {
				c.index.forget(s.consumer, s.resourceType, d)
			}
			return
		}
		allocated := status.Allocated
		if d.IsZero() {
			allocated = q.withoutDimensions()
		}
		refs = append(refs, refTo(bucket, allocated))
		if !d.IsZero() && differsInAvailable(bucket.Status, status) {
			elsewhere = append(elsewhere, outdated{bucket, status})
			return
		}
		errs = append(errs, c.updateStatus(ctx, bucket, status, renew))
	}
	showOne(ledger.Dimensions{}, statusOf(q.account, q.held, contributions), renew)
	for i := range q.shares {
		share := &q.shares[i]
		showOne(share.Dimensions, statusOfShare(share, contributions), false)
	}
	now, later := oldest(elsewhere)
	for _, o := range now {
		errs = append(errs, c.updateStatus(ctx, o.bucket, o.status, false))
	}
	if later {
		c.queue.AddAfter(s.consumer, interval)
	}
	return refs, errors.Join(errs...)
}

// availableWritesMax bounds the buckets of a resource type written at a time only because of charges to others. Every
// charge changes the available amount of all dimension sets under the same allowance. Without a bound, the cost of a
// charge would grow with the number of sets.
const availableWritesMax = 25

// outdated is a bucket with only its available amount out of date.
type outdated struct {
	bucket *quotav1alpha1.AllowanceBucket
	status quotav1alpha1.AllowanceBucketStatus
}

// oldest returns the buckets to write now, the ones written longest ago, and whether there are more.
func oldest(all []outdated) (now []outdated, later bool) {
	slices.SortStableFunc(all, func(a, b outdated) int {
		return writtenAt(a.bucket).Compare(writtenAt(b.bucket))
	})
	now = all[:min(len(all), availableWritesMax)]
	return now, len(now) < len(all)
}

func writtenAt(bucket *quotav1alpha1.AllowanceBucket) time.Time {
	if t := bucket.Status.LastReconciliation; t != nil {
		return t.Time
	}
	return time.Time{}
}
