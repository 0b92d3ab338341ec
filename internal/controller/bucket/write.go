package bucket

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// write creates or updates one bucket, unless it says the same already.
func (c *Controller) write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType string, status quotav1alpha1.AllowanceBucketStatus) error {
	name := c.nameOf(consumer, resourceType)
	bucket := &quotav1alpha1.AllowanceBucket{}
	err := c.Client.Get(ctx, name, bucket)
	if apierrors.IsNotFound(err) {
		bucket = newBucket(name, consumer, resourceType)
		err = c.Client.Create(ctx, bucket)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	return c.update(ctx, bucket, consumer, resourceType, status)
}

// writeZero makes one bucket say that there is no quota.
func (c *Controller) writeZero(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType string) error {
	return c.write(ctx, consumer, resourceType, quotav1alpha1.AllowanceBucketStatus{})
}

// clear makes one bucket, if it is there, say that there is no quota.
func (c *Controller) clear(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType string) error {
	name := c.nameOf(consumer, resourceType)
	bucket := &quotav1alpha1.AllowanceBucket{}
	err := c.Client.Get(ctx, name, bucket)
	switch {
	case err == nil:
		return c.update(ctx, bucket, consumer, resourceType, quotav1alpha1.AllowanceBucketStatus{})
	case apierrors.IsNotFound(err):
		return c.checkGone(ctx, newBucket(name, consumer, resourceType))
	}
	return fmt.Errorf("bucket %s: %w", name, err)
}

// checkGone returns nil if a bucket that the cache does not hold is not stored either. It may
// have been created a moment ago, and then it is too early to tell.
func (c *Controller) checkGone(ctx context.Context, bucket *quotav1alpha1.AllowanceBucket) error {
	err := c.Client.Create(ctx, bucket, client.DryRunAll)
	if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("bucket %s/%s: %w", bucket.Namespace, bucket.Name, err)
}

// update writes the status of a bucket, unless the bucket is of something else, or only the time of writing would change.
func (c *Controller) update(ctx context.Context, bucket *quotav1alpha1.AllowanceBucket, consumer quotav1alpha1.ConsumerRef, resourceType string, status quotav1alpha1.AllowanceBucketStatus) error {
	if bucket.Spec.ConsumerRef != consumer || bucket.Spec.ResourceType != resourceType {
		return fmt.Errorf("bucket %s/%s is of another consumer or resource type", bucket.Namespace, bucket.Name)
	}
	status.ObservedGeneration = bucket.Generation
	status.LastReconciliation = bucket.Status.LastReconciliation
	if equality.Semantic.DeepEqual(bucket.Status, status) {
		return nil
	}
	now := metav1.Now()
	status.LastReconciliation = &now
	updated := bucket.DeepCopy()
	updated.Status = status
	if err := c.Client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("status of bucket %s/%s: %w", bucket.Namespace, bucket.Name, err)
	}
	return nil
}

func (c *Controller) nameOf(consumer quotav1alpha1.ConsumerRef, resourceType string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespaceOf(consumer), Name: naming.Bucket(consumer, resourceType)}
}

// isBehind tells whether a write failed only because the cache had not seen the last one.
func isBehind(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}
