package bucket

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// renewAfter is the age of lastReconciliation from which on the controller renews the bucket's time without a change.
const renewAfter = time.Minute

// bucket returns a bucket, owned by an effective grant, or nil if there is none. With create set, it creates one.
func (c *Controller) bucket(ctx context.Context, s subject, effective *quotav1alpha1.EffectiveResourceGrant, d ledger.Dimensions, create bool) (*quotav1alpha1.AllowanceBucket, error) {
	desired := s.newBucket(d)
	desired.OwnerReferences = []metav1.OwnerReference{ownerOf(effective)}
	bucket := &quotav1alpha1.AllowanceBucket{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(desired), bucket)
	switch {
	case apierrors.IsNotFound(err) && create:
		bucket = desired
		err = c.Client.Create(ctx, bucket)
	case apierrors.IsNotFound(err):
		return nil, c.checkGone(ctx, desired)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("bucket %s/%s: %w", desired.Namespace, desired.Name, err)
	case !isOf(bucket, desired):
		return nil, fmt.Errorf("bucket %s/%s is of another consumer, resource type or dimensions", bucket.Namespace, bucket.Name)
	}
	return c.setOwner(ctx, effective, bucket)
}

// isOf reports whether two buckets have the same spec.
func isOf(bucket, desired *quotav1alpha1.AllowanceBucket) bool {
	return bucket.Spec.ConsumerRef == desired.Spec.ConsumerRef && bucket.Spec.ResourceType == desired.Spec.ResourceType &&
		maps.Equal(bucket.Spec.Dimensions, desired.Spec.Dimensions)
}

// setOwner makes an effective grant the owner of a bucket: a bucket from a version without effective grants, or one
// with an earlier deleted owner.
func (c *Controller) setOwner(ctx context.Context, effective *quotav1alpha1.EffectiveResourceGrant, bucket *quotav1alpha1.AllowanceBucket) (*quotav1alpha1.AllowanceBucket, error) {
	if metav1.IsControlledBy(bucket, effective) || !effective.DeletionTimestamp.IsZero() {
		return bucket, nil
	}
	owned := bucket.DeepCopy()
	isOther := func(o metav1.OwnerReference) bool {
		return o.Kind == effectiveGrantKind || o.Controller != nil && *o.Controller
	}
	owned.OwnerReferences = append(slices.DeleteFunc(owned.OwnerReferences, isOther), ownerOf(effective))
	if err := c.Client.Update(ctx, owned); err != nil {
		return nil, fmt.Errorf("owner of bucket %s/%s: %w", bucket.Namespace, bucket.Name, err)
	}
	return owned, nil
}

// updateStatus writes the status of a bucket if it differs. With renew set, it also renews an old time.
func (c *Controller) updateStatus(ctx context.Context, bucket *quotav1alpha1.AllowanceBucket, status quotav1alpha1.AllowanceBucketStatus, renew bool) error {
	now := metav1.Now()
	status.ObservedGeneration = bucket.Generation
	status.LastReconciliation = &now
	if !differs(bucket.Status, status) && !(renew && needsRenewal(bucket.Status.LastReconciliation, now.Time)) {
		return nil
	}
	updated := bucket.DeepCopy()
	updated.Status = status
	if err := c.Client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("status of bucket %s/%s: %w", bucket.Namespace, bucket.Name, err)
	}
	return nil
}

// differs reports whether two statuses differ in more than the time.
func differs(have, desired quotav1alpha1.AllowanceBucketStatus) bool {
	desired.LastReconciliation = have.LastReconciliation
	return !equality.Semantic.DeepEqual(have, desired)
}

// differsInAvailable reports whether two statuses differ only in the available amount.
func differsInAvailable(have, desired quotav1alpha1.AllowanceBucketStatus) bool {
	desired.ObservedGeneration = have.ObservedGeneration // a spec never changes, so there is only one generation
	if have.LastReconciliation == nil || have.Available == desired.Available {
		return false
	}
	desired.Available = have.Available
	return !differs(have, desired)
}

// needsRenewal reports whether the time of a correct status is old enough for a renewal.
func needsRenewal(reconciled *metav1.Time, now time.Time) bool {
	return reconciled == nil || now.Sub(reconciled.Time) >= renewAfter
}

// deleteBucket deletes the bucket of a dimension set.
func (c *Controller) deleteBucket(ctx context.Context, s subject, d ledger.Dimensions) error {
	bucket := s.newBucket(d)
	if err := c.Client.Delete(ctx, bucket); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete bucket %s/%s: %w", bucket.Namespace, bucket.Name, err)
	}
	c.index.forget(s.consumer, s.resourceType, d)
	return nil
}

// checkGone returns nil if an object outside the cache is not in storage either. If somebody just created it, it
// returns an error for a retry.
func (c *Controller) checkGone(ctx context.Context, object client.Object) error {
	err := c.Client.Create(ctx, object, client.DryRunAll)
	if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("find out whether %T %s/%s exists: %w", object, object.GetNamespace(), object.GetName(), err)
}

// isCacheStale reports whether a write failed only because the cache has not seen the last one.
func isCacheStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}
