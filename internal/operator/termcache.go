package operator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// termCache is the replica's cache, as the manager of a term sees it. The handlers of a term are removed at its end,
// and the cache stays.
type termCache struct {
	ctrlcache.Cache
	term context.Context
}

// Start implements [ctrlcache.Informers]. The cache runs already.
func (c termCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// GetInformer implements [ctrlcache.Informers].
func (c termCache) GetInformer(ctx context.Context, object client.Object, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, fmt.Errorf("follow %T: %w", object, err)
	}
	return termInformer{informer, c.term}, nil
}

// GetInformerForKind implements [ctrlcache.Informers].
func (c termCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, kind, options...)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", kind, err)
	}
	return termInformer{informer, c.term}, nil
}

// termInformer removes its handlers at the end of a term.
type termInformer struct {
	ctrlcache.Informer
	term context.Context
}

// AddEventHandler implements [ctrlcache.Informer].
func (i termInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [ctrlcache.Informer].
func (i termInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements [ctrlcache.Informer].
func (i termInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.Informer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(i.term, func() { _ = i.Informer.RemoveEventHandler(registration) }) // it fails for a stopped informer
	return registration, nil
}
