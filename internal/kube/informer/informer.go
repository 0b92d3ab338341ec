// Package informer registers handlers on the informers of a cache. Like all of kube it knows no quota, and any internal
// package may import it.
package informer

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow registers a handler for all objects of a kind. The returned function reports whether the handler has received
// the first list.
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

// Handler returns a handler that calls set with each new or changed object, and removed with the key of each deleted
// one.
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
