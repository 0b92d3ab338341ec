package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/open-feature/go-sdk/openfeature"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Name is the name of the provider in evaluations and events.
const Name = "bursar"

// Options select the quota that a [Provider] reads. The zero value reads all quota it may list, and leaves the consumer
// to the evaluation context.
type Options struct {
	// Consumer completes the evaluation context: its fields apply where the context has none, see [Provider]. With a name
	// it is the only consumer of a service.
	Consumer quotav1alpha1.ConsumerRef
	// Namespace is the only namespace to read. Default: all of them.
	Namespace string
	// StartTimeout bounds the wait for the first list of quota. Default: 30 s.
	StartTimeout time.Duration
}

const startTimeoutDefault = 30 * time.Second

// Provider evaluates flags by quota. Register it with OpenFeature: OpenFeature starts and stops it. It is safe for
// concurrent use. After a stop it cannot start again.
//
// The key of a flag is a resource type, such as features.example.com/dark-mode, or its last part, if no other resource
// type of the consumer ends the same. The flags of an Allocation or Entity are integers: KEY is the limit in base
// units, KEY#available its free part, and KEY#used its used part.
//
// The evaluation context names the consumer: by consumer.name or the targeting key, and optionally consumer.group,
// consumer.kind and consumer.namespace. [Options.Consumer] has the defaults.
type Provider struct {
	options Options
	cache   cache.Cache
	events  chan openfeature.Event
	index   index

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

var (
	_ openfeature.FeatureProvider          = (*Provider)(nil)
	_ openfeature.ContextAwareStateHandler = (*Provider)(nil)
	_ openfeature.EventHandler             = (*Provider)(nil)
)

// New returns a provider that reads from the API server of a configuration. It connects upon its registration.
func New(config *rest.Config, options Options) (*Provider, error) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cached := cache.Options{Scheme: scheme}
	if options.Namespace != "" {
		cached.DefaultNamespaces = map[string]cache.Config{options.Namespace: {}}
	}
	quota, err := cache.New(config, cached)
	if err != nil {
		return nil, fmt.Errorf("prepare to read quota: %w", err)
	}
	return &Provider{options: options, cache: quota, events: make(chan openfeature.Event, eventsMax)}, nil
}

// Metadata implements [openfeature.FeatureProvider].
func (p *Provider) Metadata() openfeature.Metadata { return openfeature.Metadata{Name: Name} }

// Hooks implements [openfeature.FeatureProvider]. There are none.
func (p *Provider) Hooks() []openfeature.Hook { return nil }

// Init implements [openfeature.StateHandler].
func (p *Provider) Init(evaluation openfeature.EvaluationContext) error {
	return p.InitWithContext(context.Background(), evaluation)
}

// errStopped means that a provider has stopped, and the caller has to make another.
var errStopped = errors.New("the provider was started before: make another")

// InitWithContext implements [openfeature.ContextAwareStateHandler]. It returns once it has read the quota.
func (p *Provider) InitWithContext(ctx context.Context, _ openfeature.EvaluationContext) error {
	timeout := p.options.StartTimeout
	if timeout <= 0 {
		timeout = startTimeoutDefault
	}
	starting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		return errStopped
	}
	var running context.Context
	running, p.cancel = context.WithCancel(context.Background())
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		_ = p.cache.Start(running) // it ends with the context, without an error
	}()
	informer, err := p.cache.GetInformer(starting, &quotav1alpha1.EffectiveResourceGrant{}, cache.BlockUntilSynced(false))
	if err == nil {
		var registered toolscache.ResourceEventHandlerRegistration
		if registered, err = informer.AddEventHandler(p.handler()); err == nil && !toolscache.WaitForCacheSync(starting.Done(), registered.HasSynced) {
			err = fmt.Errorf("the effective grants could not be read within %v: check the right to list and watch them%s", timeout, p.where())
		}
	}
	if err != nil {
		p.cancel()
		return fmt.Errorf("read quota: %w", err)
	}
	return nil
}

func (p *Provider) where() string {
	if p.options.Namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + p.options.Namespace
}

// Shutdown implements [openfeature.StateHandler].
func (p *Provider) Shutdown() { _ = p.ShutdownWithContext(context.Background()) }

// ShutdownWithContext implements [openfeature.ContextAwareStateHandler]. It returns once the watch has ended.
func (p *Provider) ShutdownWithContext(ctx context.Context) error {
	p.mu.Lock()
	cancel, done := p.cancel, p.done
	p.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// consumerOf returns the consumer of an evaluation.
func (p *Provider) consumerOf(flat openfeature.FlattenedContext) (quotav1alpha1.ConsumerRef, error) {
	consumer := p.options.Consumer
	for key, to := range map[string]*string{
		"consumer.group": &consumer.APIGroup, "consumer.kind": &consumer.Kind, "consumer.namespace": &consumer.Namespace,
		openfeature.TargetingKey: &consumer.Name,
	} {
		if err := override(flat, key, to); err != nil {
			return consumer, err
		}
	}
	if err := override(flat, "consumer.name", &consumer.Name); err != nil {
		return consumer, err
	}
	if consumer.Kind == "" || consumer.Name == "" {
		missing := "consumer.kind"
		if consumer.Name == "" {
			missing = "consumer.name, or a targeting key"
		}
		return consumer, fmt.Errorf("the evaluation context names no consumer: set %s", missing)
	}
	return consumer, nil
}

func override(flat openfeature.FlattenedContext, key string, to *string) error {
	value, isSet := flat[key]
	if !isSet {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s in the evaluation context is %T, not a string", key, value)
	}
	if text = strings.TrimSpace(text); text != "" {
		*to = text
	}
	return nil
}
