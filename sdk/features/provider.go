package features

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-feature/go-sdk/openfeature"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Name is the name of the provider in evaluations and events.
const Name = "bursar"

// Options select the quota that a [Provider] reads. The zero value reads all quota it may list, and leaves the consumer
// to the evaluation context.
type Options struct {
	// Consumer completes the evaluation context: its fields apply where the context has none, see [Provider]. With a name,
	// it is the only consumer: the provider then ignores the targeting key and consumer.* of the context.
	Consumer quotav1alpha1.ConsumerRef
	// Namespace is the only namespace to read. Default: all of them.
	Namespace string
	// StartTimeout bounds the wait for the first list of quota. Default: 30 s.
	StartTimeout time.Duration
}

const startTimeoutDefault = 30 * time.Second

// Provider evaluates flags by quota. Register it with OpenFeature: OpenFeature starts and stops it. It is safe for
// concurrent use.
//
// The key of a flag is a resource type, such as features.example.com/dark-mode, or its last part. The last part is an
// error as soon as the quota read, of any consumer, has two resource types that end in it. The flags of an Allocation
// or Entity are integers: KEY is the limit in base units, KEY#available its free part, and KEY#used its used part.
//
// The evaluation context names the consumer: by consumer.name or the targeting key, and optionally consumer.group,
// consumer.kind and consumer.namespace. [Options.Consumer] has the defaults, or fixes the consumer.
//
// While the provider cannot watch quota, it is STALE: it evaluates flags by the last known quota. It is READY again
// with the next watch.
type Provider struct {
	options Options
	quota   rest.Interface
	events  chan openfeature.Event
	// known is the quota, or nil before the first list.
	known atomic.Pointer[index]

	mu sync.Mutex
	// follower is nil unless the provider has been started.
	follower *follower
}

var (
	_ openfeature.FeatureProvider          = (*Provider)(nil)
	_ openfeature.ContextAwareStateHandler = (*Provider)(nil)
	_ openfeature.EventHandler             = (*Provider)(nil)
)

// New returns a provider that reads from the API server of a configuration. It connects upon its registration.
func New(config *rest.Config, options Options) (*Provider, error) {
	if c := options.Consumer; c.Name != "" && c.Kind == "" {
		return nil, fmt.Errorf("the fixed consumer %q has no kind: set Options.Consumer.Kind", c.Name)
	}
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to read quota: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &quotav1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	quota, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("prepare to read quota: %w", err)
	}
	return &Provider{options: options, quota: quota, events: make(chan openfeature.Event)}, nil
}

// Metadata implements [openfeature.FeatureProvider].
func (p *Provider) Metadata() openfeature.Metadata { return openfeature.Metadata{Name: Name} }

// Hooks implements [openfeature.FeatureProvider]. There are none.
func (p *Provider) Hooks() []openfeature.Hook { return nil }

// EventChannel implements [openfeature.EventHandler]. There is an event for each changed limit, for a lost watch, and
// for the next one. OpenFeature itself emits the event about the end of Init.
func (p *Provider) EventChannel() <-chan openfeature.Event { return p.events }

// Init implements [openfeature.StateHandler].
func (p *Provider) Init(evaluation openfeature.EvaluationContext) error {
	return p.InitWithContext(context.Background(), evaluation)
}

// errStopped means that somebody stopped a provider during its start.
var errStopped = errors.New("read quota: the provider was shut down before it had read any")

// InitWithContext implements [openfeature.ContextAwareStateHandler]. It returns once the provider has read the quota:
// at once, if it has before. After an error the provider goes on trying until its shutdown, and emits an event once it
// is ready. Another call waits for the same.
func (p *Provider) InitWithContext(ctx context.Context, _ openfeature.EvaluationContext) (err error) {
	timeout := p.options.StartTimeout
	if timeout <= 0 {
		timeout = startTimeoutDefault
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := p.follow()
	defer func() { f.events.end(err) }()
	select {
	case <-f.synced:
		return nil
	case <-f.done:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("read quota: no list of effective grants%s within %v, and the provider goes on trying: %w", p.where(), timeout, f.failure(ctx.Err()))
	}
}

// follow returns the running follower, with one more call of Init. It starts one if there is none.
func (p *Provider) follow() *follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	isRunning := p.follower != nil
	if !isRunning {
		p.follower = newFollower()
	}
	p.follower.events.begin()
	if !isRunning {
		p.follower.start(p)
	}
	return p.follower
}

func (p *Provider) where() string {
	if p.options.Namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + p.options.Namespace
}

// Shutdown implements [openfeature.StateHandler].
func (p *Provider) Shutdown() { _ = p.ShutdownWithContext(context.Background()) }

// ShutdownWithContext implements [openfeature.ContextAwareStateHandler]. It returns once the watch has ended. The
// provider may be started again.
func (p *Provider) ShutdownWithContext(ctx context.Context) error {
	p.mu.Lock()
	f := p.follower
	p.follower = nil
	p.mu.Unlock()
	if f == nil {
		return nil
	}
	f.cancel()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
