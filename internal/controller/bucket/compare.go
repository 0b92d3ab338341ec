package bucket

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// IndexExisting indexes the existing buckets and effective grants, in any namespace. Ledgers may have changed since the
// writes of these: list the ledgers after this call, call Compare for each, and then PublishOthers.
//
// Buckets without an owner are from a version without effective grants. They still need their owners.
func (c *Controller) IndexExisting(ctx context.Context) error {
	c.lag.clear() // nobody published while this replica did not lead
	c.leads.Store(true)
	var buckets quotav1alpha1.AllowanceBucketList
	if err := c.Client.List(ctx, &buckets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the buckets: %w", err)
	}
	for i := range buckets.Items {
		spec := &buckets.Items[i].Spec
		d, err := ledger.NewDimensions(spec.Dimensions)
		if err != nil {
			c.Log.Error(err, "cannot read the dimensions of a bucket; it stays unchanged", "bucket", buckets.Items[i].Name)
			continue
		}
		c.index.add(spec.ConsumerRef, spec.ResourceType, d)
		if s := c.subjectOf(spec.ConsumerRef, spec.ResourceType); isStale(&buckets.Items[i], s.newBucket(d)) {
			c.stale.add(spec.ConsumerRef, buckets.Items[i].DeepCopy())
		}
		if metav1.GetControllerOf(&buckets.Items[i]) == nil {
			c.index.need(spec.ConsumerRef, spec.ResourceType)
		}
	}
	var effective quotav1alpha1.EffectiveResourceGrantList
	if err := c.Client.List(ctx, &effective, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the effective grants: %w", err)
	}
	for i := range effective.Items {
		spec := &effective.Items[i].Spec
		c.index.add(spec.ConsumerRef, spec.ResourceType)
		if s := c.subjectOf(spec.ConsumerRef, spec.ResourceType); isStale(&effective.Items[i], s.newEffectiveGrant()) {
			c.stale.add(spec.ConsumerRef, effective.Items[i].DeepCopy())
		}
	}
	return nil
}

// Compare queues a consumer unless its buckets and effective grants agree with its listed ledger. It writes nothing:
// the ledger may have changed since the list, and then the store calls Changed.
func (c *Controller) Compare(ctx context.Context, consumer quotav1alpha1.ConsumerRef, stored ledger.Snapshot) {
	c.pace.know(consumer)
	comparing := *c
	comparing.Client = readOnly{c.Client}
	restored, err := ledger.Restore(stored)
	if err == nil {
		err = comparing.publishLedger(ctx, consumer, restored, c.index.of(consumer), false)
	}
	if err != nil {
		c.Publish(consumer)
	}
}

// PublishOthers queues the consumers with buckets or effective grants and without a ledger.
func (c *Controller) PublishOthers() {
	for _, consumer := range c.index.consumers() {
		if known := c.pace.know(consumer); !known {
			c.Publish(consumer)
		}
	}
}

// errDiffers stands for a required write.
var errDiffers = errors.New("the buckets differ from the ledger")

// readOnly is a client that fails the writes of this controller.
type readOnly struct{ client.Client }

func (readOnly) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errDiffers
}

func (readOnly) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errDiffers
}

func (readOnly) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errDiffers
}

func (r readOnly) Status() client.SubResourceWriter { return readOnlyStatus{r.Client.Status()} }

type readOnlyStatus struct{ client.SubResourceWriter }

func (readOnlyStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errDiffers
}
