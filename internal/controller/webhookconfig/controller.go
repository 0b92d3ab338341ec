package webhookconfig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/discoverycache"
)

const (
	// configurationName is the name of both webhook configurations.
	configurationName = "bursar"
	// retryTime is the delay after a failure.
	retryTime = time.Second
	// catchUpTimeout bounds the wait for the knowledge of an earlier leader.
	catchUpTimeout = 10 * time.Second
	// syncInterval is the least time between the beginnings of two reconciles: many changes of policies make few
	// changes of the configurations. After each, the API server builds its webhooks again.
	syncInterval = 100 * time.Millisecond
	// checkInterval is how long an edit of the configurations by another client may last.
	checkInterval = 15 * time.Second
)

// Catalog knows the kinds under policy.
type Catalog interface {
	Protected() catalog.Protected
}

// Own are the webhooks on Bursar's own kinds.
type Own interface {
	Validating() []admissionregistrationv1.ValidatingWebhook
	Mutating() []admissionregistrationv1.MutatingWebhook
}

// Server serves the webhooks.
type Server interface {
	// ClientConfig returns how the API server reaches a path.
	ClientConfig(path string) admissionregistrationv1.WebhookClientConfig
	// Observe learns of a published path. A later ClientConfig never returns an older form of a path.
	Observe(path string)
}

// Gate waits until the catalog knows the declarations of a version, or returns an error.
type Gate[V any] interface {
	Wait(ctx context.Context, version V) error
}

// Controller reconciles the webhook configurations. Set its fields once, before use.
type Controller struct {
	Client  kubernetes.Interface
	Catalog Catalog
	Kinds   discoverycache.DefinedResolver
	// Own are the webhooks on Bursar's own kinds, and Server serves all of them.
	Own             Own
	Server          Server
	Username        string
	SystemNamespace string
	// Others are all API servers with the same storage, each with an [Observer]. Default: Client's API server is the
	// only one, or others are unknown.
	Others Others
	// Policies and Allocations are the gates to the declarations of a version.
	Policies    Gate[catalog.Version]
	Allocations Gate[catalog.Digest]
	Log         logr.Logger

	onSync []func()

	wake chan struct{}
	once sync.Once

	mu       sync.Mutex
	observed *validating
}

// OnSync registers f. The controller calls it after other kinds or policies became effective. Call OnSync before Run.
func (c *Controller) OnSync(f func()) { c.onSync = append(c.onSync, f) }

// Wake requests a reconcile of the configurations soon.
func (c *Controller) Wake() {
	select {
	case c.wakeup() <- struct{}{}:
	default:
	}
}

func (c *Controller) wakeup() chan struct{} {
	c.once.Do(func() { c.wake = make(chan struct{}, 1) })
	return c.wake
}

// IsEffective reports whether the API server sends the requests of a kind, and only to replicas with the policy.
// entered is the revision of the catalog with the entry of the policy.
func (c *Controller) IsEffective(kind schema.GroupVersionKind, entered int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observed != nil && c.observed.kinds.Has(kind) && entered <= c.observed.revision
}

// IsAllocationEffective reports whether the API server sends ResourceQuotas, and only to replicas with the allocation.
// entered is the revision of the catalog with the entry of the allocation.
func (c *Controller) IsAllocationEffective(entered int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observed != nil && entered <= c.observed.revision
}

// Synced reports whether the API server has ever observed the requirements of the policies.
func (c *Controller) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observed != nil
}

// Run reconciles the configurations until ctx ends. It restores a deleted one soon, and an edited one within
// checkInterval: faster, two disagreeing operators would never rest.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.followDeletions(ctx); err != nil {
		return err
	}
	for {
		began, wait := time.Now(), checkInterval
		if err := c.Sync(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "will try again")
			wait = retryTime
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(syncInterval - time.Since(began)):
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-c.wakeup():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// followDeletions wakes the controller on each deletion of one of the configurations.
func (c *Controller) followDeletions(ctx context.Context) error {
	_, _, err := follow(ctx, c.Client, cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { c.Wake() }})
	return err
}

// follow calls a handler with the changes of the two configurations, and returns their stores once they are complete.
func follow(ctx context.Context, client kubernetes.Interface, handler cache.ResourceEventHandler) (validating, mutating cache.Store, err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, configurationName).String()
	}))
	api := factory.Admissionregistration().V1()
	all := []cache.SharedIndexInformer{api.ValidatingWebhookConfigurations().Informer(), api.MutatingWebhookConfigurations().Informer()}
	var synced []cache.InformerSynced
	for _, informer := range all {
		handle, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, nil, fmt.Errorf("follow the webhook configurations: %w", err)
		}
		synced = append(synced, handle.HasSynced)
	}
	factory.StartWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), synced...)
	return all[0].GetStore(), all[1].GetStore(), nil
}

// Sync reconciles the configurations and returns once the API server uses them. It reads the stored configurations
// before the catalog, and replaces no other version. So a paused leader cannot overwrite the newer state of its
// successor.
func (c *Controller) Sync(ctx context.Context) error {
	stored, err := read(ctx, c.Client)
	if err != nil {
		return err
	}
	for _, config := range slices.Concat(clientConfigs(stored.validating), clientConfigs(stored.mutating)) {
		c.Server.Observe(pathOf(config))
	}
	if err := c.catchUp(ctx, stored); err != nil {
		return err
	}
	desired := c.desired(ctx)
	if err := c.apply(ctx, stored, desired); err != nil {
		return err
	}
	c.mu.Lock()
	before := c.observed
	c.observed = &desired
	c.mu.Unlock()
	isNews := before == nil || before.revision != desired.revision || !before.kinds.Equal(desired.kinds)
	if isNews {
		for _, f := range c.onSync {
			f()
		}
	}
	return nil
}
