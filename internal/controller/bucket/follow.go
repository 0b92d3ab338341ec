package bucket

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Follow starts to watch buckets and effective grants, to create deleted ones again while the ledger has quota. It also
// starts to watch namespaces, because consumers may wait for them. It does not wait for the caches. Only a leader calls
// it, because each write costs the decoding of an object in every watching replica.
func (c *Controller) Follow(ctx context.Context) error {
	vanished := cache.ResourceEventHandlerFuncs{DeleteFunc: c.deleted}
	for _, each := range []struct {
		object  client.Object
		handler cache.ResourceEventHandler
	}{
		{&quotav1alpha1.AllowanceBucket{}, vanished},
		{&quotav1alpha1.EffectiveResourceGrant{}, vanished},
		{anyNamespace(), cache.ResourceEventHandlerFuncs{AddFunc: c.namespaceAppeared}},
	} {
		informer, err := c.Cache.GetInformer(ctx, each.object, ctrlcache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(each.handler)
		}
		if err != nil {
			return fmt.Errorf("follow %T: %w", each.object, err)
		}
	}
	return nil
}

// deleted queues the consumer of a deleted object. It has the signature of an informer's handler. The garbage collector
// may delete many buckets with their owner, so it waits a moment for more.
func (c *Controller) deleted(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	switch object := object.(type) {
	case *quotav1alpha1.AllowanceBucket:
		c.publishSoon(object.Spec.ConsumerRef)
	case *quotav1alpha1.EffectiveResourceGrant:
		c.publishSoon(object.Spec.ConsumerRef)
	}
}
