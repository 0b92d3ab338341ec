package apiserver

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
)

// controllerInformers makes the informers shared by the garbage collector and the quota controller. It stops the
// informer of a removed kind once neither follows it. Those of client-go never stop, and fail to list a removed kind
// again and again.
type controllerInformers struct {
	typed  informers.SharedInformerFactory
	client metadata.Interface

	mu sync.Mutex
	// byMetadata are the last informers of resources without a Go type, such as custom resources.
	byMetadata map[schema.GroupVersionResource]*metadataInformer
}

var _ informerfactory.InformerFactory = (*controllerInformers)(nil)

func newControllerInformers(typed informers.SharedInformerFactory, client metadata.Interface) *controllerInformers {
	return &controllerInformers{typed: typed, client: client, byMetadata: map[schema.GroupVersionResource]*metadataInformer{}}
}

// metadataInformer is an informer of one resource. The lock of its owner guards it.
type metadataInformer struct {
	cache.SharedIndexInformer
	// followers is the number of controllers that follow the resource.
	followers int
	// stop stops the informer. It is nil before the start.
	stop      context.CancelFunc
	isStopped bool
}

// ForResource implements [informerfactory.InformerFactory].
func (c *controllerInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if typed, err := c.typed.ForResource(resource); err == nil {
		return typed, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byMetadata[resource] == nil {
		c.byMetadata[resource] = c.newInformer(resource)
	}
	return &follower{metadataInformer: c.byMetadata[resource], owner: c, resource: resource}, nil
}

// Start implements [informerfactory.InformerFactory].
func (c *controllerInformers) Start(stop <-chan struct{}) {
	c.typed.Start(stop)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, informer := range c.byMetadata {
		if informer.followers > 0 && informer.stop == nil {
			ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
			informer.stop = cancel
			go informer.RunWithContext(ctx)
		}
	}
}

func (c *controllerInformers) newInformer(resource schema.GroupVersionResource) *metadataInformer {
	client := c.client.Resource(resource)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}, c.client)
	informer := cache.NewSharedIndexInformerWithOptions(source, &metav1.PartialObjectMetadata{}, cache.SharedIndexInformerOptions{
		Indexers:          cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		ObjectDescription: resource.String(), // names the resource in the log
	})
	_ = informer.SetTransform(ownership) // it fails only after the start
	return &metadataInformer{SharedIndexInformer: informer}
}

// follower is the informer of a resource for one controller. An upstream controller first adds a handler to it. Then it
// runs the Controller of the informer for as long as it follows the resource.
type follower struct {
	*metadataInformer
	owner    *controllerInformers
	resource schema.GroupVersionResource
}

// Informer implements [informers.GenericInformer].
func (f *follower) Informer() cache.SharedIndexInformer { return f }

// Lister implements [informers.GenericInformer].
func (f *follower) Lister() cache.GenericLister {
	return metadatalister.NewRuntimeObjectShim(metadatalister.New(f.GetIndexer(), f.resource))
}

// AddEventHandlerWithResyncPeriod begins to follow the resource. A stopped informer gets a successor.
func (f *follower) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	if f.metadataInformer = f.owner.byMetadata[f.resource]; f.isStopped {
		f.metadataInformer = f.owner.newInformer(f.resource)
		f.owner.byMetadata[f.resource] = f.metadataInformer
	}
	f.followers++
	return f.metadataInformer.AddEventHandlerWithResyncPeriod(handler, resync)
}

// GetController returns a Controller with a Run for as long as the resource is followed.
func (f *follower) GetController() cache.Controller {
	return &following{Controller: f.metadataInformer.GetController(), end: f.end}
}

// end ends following. The informer goes on while it knows objects: an aggregated API server may return, and its next
// list shows the objects deleted meanwhile. The end of a CustomResourceDefinition deletes all its objects.
func (f *follower) end() {
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	f.followers--
	if f.followers == 0 && f.stop != nil && len(f.GetIndexer().ListKeys()) == 0 {
		f.stop()
		f.isStopped = true
	}
}

// following is the Controller of a shared informer. That of client-go does nothing in Run.
type following struct {
	cache.Controller
	end func()
}

// Run returns at the end of following.
func (f *following) Run(stop <-chan struct{}) {
	<-stop
	f.end()
}
