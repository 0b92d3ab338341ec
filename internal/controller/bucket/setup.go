package bucket

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// SetupWithManager makes the controller notice deleted buckets: they are made anew while the
// books have something to show. Call it after Start and before the manager starts.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(context.Background(), &quotav1alpha1.AllowanceBucket{})
	if err != nil {
		return fmt.Errorf("follow the buckets: %w", err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: c.deleted}); err != nil {
		return fmt.Errorf("follow the buckets: %w", err)
	}
	return nil
}

// deleted has the form of an informer's handler.
func (c *Controller) deleted(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if bucket, ok := object.(*quotav1alpha1.AllowanceBucket); ok {
		c.Show(bucket.Spec.ConsumerRef)
	}
}
