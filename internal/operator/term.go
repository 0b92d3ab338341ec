package operator

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/controller/allocation"
	"github.com/bursar/bursar/internal/controller/bucket"
	"github.com/bursar/bursar/internal/controller/claimpolicy"
	"github.com/bursar/bursar/internal/controller/grant"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/leaderstart"
	"github.com/bursar/bursar/internal/controller/notification"
	"github.com/bursar/bursar/internal/controller/quotaincrease"
	"github.com/bursar/bursar/internal/controller/quotarequest"
	"github.com/bursar/bursar/internal/controller/registration"
	"github.com/bursar/bursar/internal/controller/view"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/usage"
)

// term is the work of a leader from its election to its end. Another replica may lead between two terms, so each term
// begins with new components: none remembers what another leader has changed since.
type term struct {
	manager    ctrl.Manager
	webhooks   *webhookconfig.Controller
	bucket     *bucket.Controller
	adoption   *adoption.Controller
	allocation *allocation.Controller
	grants     *grantpolicy.Controller
	views      *view.Controller
	starter    *leaderstart.Starter
	// runners run once there is a certificate to publish.
	runners    []runner
	collectors []collectors
}

// newTerm makes and connects the components of a term, and runs none. The term lasts until ctx ends.
func (l *leading) newTerm(ctx context.Context) (*term, error) {
	o, c, q, log := l.operator, l.cluster, l.quota, l.operator.options.Log
	manager, err := l.newManager(ctx)
	if err != nil {
		return nil, err
	}

	webhooks := o.newWebhooks(c, q, l.server)
	webhooks.OnSync(l.declared.webhooksChanged)
	grants := o.newGrantPolicies(c, q)
	grants.Start()
	caps := &allocation.Controller{
		Catalog: q.catalog, Ledgers: q.allocations, Members: q.members, Client: c.client, Live: c.live, Webhooks: webhooks,
		PendingTime: o.options.RequestTimeout.Duration + allocationstore.PendingMargin, Events: c.events, Log: log.WithName("allocation"),
	}
	caps.Start()
	buckets := &bucket.Controller{
		Client: c.client, Cache: manager.GetCache(), Ledgers: q.ledgers, Held: l.held, Catalog: q.catalog, SystemNamespace: o.options.SystemNamespace,
		Namespaces: o.options.Namespaces(), Events: c.events, Log: log.WithName("bucket"),
	}
	buckets.Start()
	views := o.newViews(c, q)
	views.Start()
	notifier := &usage.Notifier{Source: o.usageSource(c, q), Registrations: q.catalog, Events: c.events, Log: log.WithName("usage")}

	t := &term{
		manager: manager, webhooks: webhooks, bucket: buckets, adoption: o.newAdoption(c, q), allocation: caps, grants: grants, views: views,
		runners:    []runner{webhooks, o.newDeparted(c, q, buckets), grants, notifier, views},
		collectors: []collectors{grants, caps, buckets},
	}
	t.collectors = append(t.collectors, t.adoption)
	if o.options.ResourceQuotas.ServesAllocations() {
		t.runners = append(t.runners, caps)
	}
	return t, l.addReconcilers(t)
}

// reconciler is registered with the manager.
type reconciler interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// addReconcilers adds the reconcilers and the starter to a term.
func (l *leading) addReconcilers(t *term) error {
	for _, reconciler := range l.newReconcilers(t) {
		if err := reconciler.SetupWithManager(t.manager); err != nil {
			return fmt.Errorf("set up %T: %w", reconciler, err)
		}
	}
	return nil
}

// newReconcilers makes the reconcilers of a term. It adds their metrics and the starter to the term.
func (l *leading) newReconcilers(t *term) []reconciler {
	o, c, q := l.operator, l.cluster, l.quota

	// storedGrants are the grants in the ledgers at the beginning of the term.
	totals := grant.NewTotals()
	storedGrants, consumers := grant.NewStored(totals), make(chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef])
	t.starter = &leaderstart.Starter{Live: c.live, Buckets: t.bucket, Grants: storedGrants, Consumers: consumers}

	increases := &quotaincrease.Reconciler{
		Client: c.client, Live: c.live, Definitions: &quotaincrease.Definitions{Client: c.client, Specs: q.specs},
		SystemNamespace: o.options.SystemNamespace, Events: c.events, WithoutCaps: !o.options.ResourceQuotas.ServesAllocations(),
	}
	decisions := quotarequest.NewMetrics()
	t.collectors = append(t.collectors, increases, decisions)

	reconcilers := []reconciler{
		&registration.Reconciler{Client: c.client, Live: c.live, Kinds: c.kinds, KindsChanged: l.declared.kindsChanged},
		&grant.Reconciler{
			Client: c.client, Live: c.live, Catalog: q.catalog, Ledgers: q.ledgers, Loaded: l.loaded, Stored: storedGrants, Totals: totals,
			RegistrationsChanged: l.declared.registrationsChanged, Consumers: consumers,
			Clock: &o.clock, Events: c.events, ExpiryNotice: o.options.GrantExpiryNotice.Duration,
		},
		&claimpolicy.Reconciler{
			Client: c.client, Catalog: q.catalog, Kinds: c.kinds, Permission: c.permission, Listener: l.declared, Webhooks: t.webhooks,
			Changed: l.declared.policiesChanged,
		},
		&quotarequest.Reconciler{
			Client: c.client, Live: c.live, Ledgers: q.ledgers, Totals: totals, Catalog: q.catalog, Complete: []<-chan struct{}{l.loaded, storedGrants.Completed()},
			Lead: q.ledgers.Lead, Permissions: c.users, Clock: &o.clock, Events: c.events, Metrics: decisions,
		},
		t.adoption,
	}

	if o.options.ResourceQuotas.ServesIncreases() {
		reconcilers = append(reconcilers, increases)
	}
	if to := o.options.RequestNotifications; to.URL != "" {
		notifications := notification.New(c.client, c.live, notification.NewSender(to.URL, to.SecretFile, &o.clock), o.options.Log.WithName("notification"))
		reconcilers, t.collectors = append(reconcilers, notifications), append(t.collectors, notifications)
	}
	return reconcilers
}

// run does the work of the term until ctx ends or a component fails.
func (t *term) run(ctx context.Context, certificates server.Certificates) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.manager.Start(ctx) })
	group.Go(func() error { return t.starter.Run(ctx) })
	group.Go(func() error {
		const poll = 5 * time.Millisecond
		err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) { return certificates.Ready() == nil, nil })
		if err != nil {
			return nil // ctx has ended
		}
		for _, runner := range t.runners {
			group.Go(func() error { return runner.Run(ctx) })
		}
		return nil
	})
	return group.Wait()
}

// newManager makes the manager of a term's reconcilers. It shares the caches of the replica, so a term lists nothing.
func (l *leading) newManager(ctx context.Context) (ctrl.Manager, error) {
	shared := l.cluster.manager
	manager, err := ctrl.NewManager(shared.GetConfig(), ctrl.Options{
		Scheme:         shared.GetScheme(),
		Logger:         l.operator.options.Log,
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     controllerOptions,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return shared.GetRESTMapper(), nil },
		NewCache: func(*rest.Config, ctrlcache.Options) (ctrlcache.Cache, error) {
			return termCache{Cache: shared.GetCache(), term: ctx}, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) { return shared.GetClient(), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("make the controller manager of the leader: %w", err)
	}
	return manager, nil
}
