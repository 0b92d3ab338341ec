// Package informer follows the objects of a kind.
package informer

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow has a handler hear of all objects of the kind of an object. What it returns reports whether it has heard of all
// that there were.
func Follow(ctx context.Context, informers ctrlcache.Informers, object client.Object, handler cache.ResourceEventHandler) (cache.InformerSynced, error) {
	followed, err := informers.GetInformer(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("follow %T: %w", object, err)
	}
	handle, err := followed.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("follow %T: %w", object, err)
	}
	return handle.HasSynced, nil
}

// Handler returns one that calls set with each object that is new or changed, and removed with the key of each that is gone.
func Handler[T client.Object](set func(T), removed func(key string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object.(T)) },
		UpdateFunc: func(_, object any) { set(object.(T)) },
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				removed(key)
			}
		},
	}
}
