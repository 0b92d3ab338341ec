package operator

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/apiclient"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/permission"
)

// cluster is the shared access of controllers and webhooks to the API server.
type cluster struct {
	manager ctrl.Manager
	// client reads from a cache, and live from the API server.
	client     client.Client
	live       client.Reader
	objects    *objectcache.Cache
	kinds      *discoverycache.Cache
	namespaces *namespaces.Namespaces
	// permission checks Bursar's own permissions, and users those of others.
	permission *permission.Checker
	users      *permission.Users
	dynamic    dynamic.Interface
	events     *events.Recorder
}

func (o *Operator) newCluster(ctx context.Context) (*cluster, error) {
	manager, err := o.newManager(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(o.options.Config, o.httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a dynamic client: %w", err)
	}
	kinds := discoverycache.New(o.client.Discovery(), o.extensions)
	return &cluster{
		manager:    manager,
		client:     manager.GetClient(),
		live:       manager.GetAPIReader(),
		objects:    objectcache.New(o.metadata, kinds),
		kinds:      kinds,
		namespaces: &namespaces.Namespaces{Cached: manager.GetClient(), Live: manager.GetAPIReader()},
		permission: permission.New(o.client.AuthorizationV1().SelfSubjectAccessReviews()),
		users:      &permission.Users{Reviews: o.client.AuthorizationV1().SubjectAccessReviews(), Kinds: kinds},
		dynamic:    objects,
		events:     events.NewRecorder(manager.GetEventRecorder("bursar")).WithNamespaces(manager.GetScheme(), o.options.SystemNamespace),
	}, nil
}

// controllerOptions are those of all managers.
var controllerOptions = config.Controller{
	// One process may run several operators, one after the other, and each leads in terms.
	SkipNameValidation: new(true),
	// It may hang as it ends (kubernetes-sigs/controller-runtime#3538).
	UsePriorityQueue: new(false),
}

// newManager makes the manager of the cache, to start with ctx. It runs no controllers: they belong to a [term].
func (o *Operator) newManager(ctx context.Context) (ctrl.Manager, error) {
	strip := ctrlcache.TransformStripManagedFields() // they are a third of most objects, and unused
	options := ctrl.Options{
		Scheme:  o.scheme,
		Logger:  o.options.Log,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// One of several API servers may serve Bursar's kinds later than the others.
		MapperProvider: apiclient.NewMapper,
		NewCache: func(config *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
			cache, err := ctrlcache.New(config, options)
			return managedCache{Cache: cache, working: ctx}, err
		},
		Cache: ctrlcache.Options{DefaultTransform: strip, ByObject: map[client.Object]ctrlcache.ByObject{
			&quotav1alpha1.ResourceGrant{}: {Transform: o.deletions.Follow(strip)},
		}},
		Controller: controllerOptions,
	}
	manager, err := ctrl.NewManager(apiclient.WithTimeouts(o.options.Config, apiclient.DefaultTimeouts), options)
	if err != nil {
		return nil, fmt.Errorf("make the controller manager: %w", err)
	}
	return manager, nil
}

// managedCache is a cache that its manager does not wait for after the end of the operator's work. If this work ends
// before the first lists of the cache, the manager would wait for them in a busy loop, for ever without an API server.
// Reads of a kind still wait for its list.
type managedCache struct {
	ctrlcache.Cache
	working context.Context
}

// WaitForCacheSync implements [ctrlcache.Informers].
func (c managedCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.working, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.working.Err() != nil
}
