package grantpolicy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/worker"
)

const (
	// evaluators is the number of concurrent evaluations, each of a policy and an object.
	evaluators = 4
	// reconcilers is the number of concurrent reconciles of policies.
	reconcilers = 2
	// evaluateRetryMax is the longest delay before the retry of a failed evaluation. A change of the object or the
	// policy causes a retry at once.
	evaluateRetryMax = time.Minute

	defaultCompareInterval = 30 * time.Second
)

// Permission returns the reason for not following the objects of a resource, or "". An error means that the answer is
// unknown.
type Permission interface {
	Follow(ctx context.Context, resource schema.GroupVersionResource) (problem string, err error)
}

// Registrations returns the reason why the active registrations do not allow a grant, or nil.
type Registrations interface {
	CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error
	// CheckNew returns the reason why one of these resource types takes no further policies.
	CheckNew(resourceTypes ...string) error
	message.Registrations
}

// Rules validate grants.
type Rules interface {
	// ValidateGrant returns every error in a grant.
	ValidateGrant(*quotav1alpha1.ResourceGrant) field.ErrorList
}

// Controller reconciles the grants of policies. Set its fields once, before it runs.
type Controller struct {
	// Client talks to this control plane and reads from Cache; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Cache  ctrlcache.Cache
	// Objects watches the kinds in policies.
	Objects dynamic.Interface
	// Core watches the Secrets in the system namespace.
	Core  kubernetes.Interface
	Kinds interface {
		discoverycache.Resolver
		discoverycache.States
	}
	Catalog Registrations
	// Permission is Bursar's own.
	Permission Permission
	// Rules validate created grants, because no webhook reviews the controller's writes.
	Rules  Rules
	Events events.EventRecorder
	// SystemNamespace holds the Secrets of registered control planes, and the grants without another namespace.
	SystemNamespace string
	// CompareInterval is the time between two lists of the grants in another control plane. Default: 30 s.
	CompareInterval time.Duration
	Log             logr.Logger

	metrics *metrics
	// policyQueue holds policies by name, and evaluations the keys to evaluate.
	policyQueue workqueue.TypedRateLimitingInterface[string]
	evaluations workqueue.TypedRateLimitingInterface[key]

	// Hold recordMu for a change of a policy's record.
	recordMu sync.Mutex

	// mu guards the fields below. The holder of mu may take a control plane's own lock, not the other way round.
	mu            sync.Mutex
	policies      map[types.UID]*policyState
	followers     map[schema.GroupVersionKind]*follower
	controlPlanes map[remote.Ref]*controlPlane
	// secrets are the registered control planes, by the name of the Secret.
	secrets map[string]*controlPlaneSecret
	// recorded are the control planes known to be on the record of each policy.
	recorded map[types.UID]map[remote.Ref]bool
	// tasks are the goroutines besides the workers, in the context running.
	tasks   sync.WaitGroup
	running context.Context
}

// Start makes the queues and metrics. Call it before Wake and Collectors.
func (c *Controller) Start() {
	if c.CompareInterval <= 0 {
		c.CompareInterval = defaultCompareInterval
	}
	c.metrics = newMetrics()
	c.policyQueue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))
	c.evaluations = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second, evaluateRetryMax))
	c.policies = map[types.UID]*policyState{}
	c.followers = map[schema.GroupVersionKind]*follower{}
	c.controlPlanes = map[remote.Ref]*controlPlane{}
	c.secrets = map[string]*controlPlaneSecret{}
	c.recorded = map[types.UID]map[remote.Ref]bool{}
}

// Wake queues every policy after a change of kinds or registrations.
func (c *Controller) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.policies {
		c.policyQueue.Add(s.object.Name)
	}
}

// Run reconciles until ctx ends. It returns an error if it cannot start.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.tasks.Wait()
	defer cancel()
	c.running = ctx
	if err := c.follow(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	c.tasks.Go(func() {
		worker.Run(ctx, c.evaluations, evaluators, c.evaluate, func(key, error) {}) // events report errors
	})
	worker.Run(ctx, c.policyQueue, reconcilers, c.reconcile, func(name string, err error) {
		c.Log.Error(err, "will try again", "policy", name)
	})
	return nil
}

// follow starts the informers of grants, Secrets and policies, in this order: a policy needs the possible locations of
// its grants.
func (c *Controller) follow(ctx context.Context) error {
	if err := c.addLocalControlPlane(ctx); err != nil {
		return fmt.Errorf("follow the grants: %w", err)
	}
	if err := c.followSecrets(ctx); err != nil {
		return fmt.Errorf("follow the Secrets in namespace %s: %w", c.SystemNamespace, err)
	}
	if err := c.followPolicies(ctx); err != nil {
		return fmt.Errorf("follow the policies: %w", err)
	}
	return nil
}
