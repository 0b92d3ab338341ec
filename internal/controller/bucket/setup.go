package bucket

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// SetupWithManager watches for deleted buckets and effective grants, to create them again while the ledger has quota,
// and for new namespaces that consumers wait for. Call it after Start and before the manager starts.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	for _, object := range []client.Object{&quotav1alpha1.AllowanceBucket{}, &quotav1alpha1.EffectiveResourceGrant{}} {
		informer, err := mgr.GetCache().GetInformer(context.Background(), object)
		if err != nil {
			return fmt.Errorf("follow %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: c.deleted}); err != nil {
			return fmt.Errorf("follow %T: %w", object, err)
		}
	}
	namespaces, err := mgr.GetCache().GetInformer(context.Background(), anyNamespace())
	if err == nil {
		_, err = namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.namespaceAppeared})
	}
	if err != nil {
		return fmt.Errorf("follow namespaces: %w", err)
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
