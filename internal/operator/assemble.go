package operator

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/controller/claimpolicy"
	"github.com/bursar/bursar/internal/controller/claimpolicy/evaluation"
	"github.com/bursar/bursar/internal/controller/follow"
	"github.com/bursar/bursar/internal/controller/grant"
	"github.com/bursar/bursar/internal/controller/leaderstart"
	"github.com/bursar/bursar/internal/controller/notification"
	"github.com/bursar/bursar/internal/controller/quotaincrease"
	"github.com/bursar/bursar/internal/controller/quotarequest"
	"github.com/bursar/bursar/internal/controller/registration"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

// components are everything that runs, and what the start waits for.
type components struct {
	cluster *cluster
	quota   *quota
	server  *server.Server
	// peers are the other replicas, or nil if there can be none.
	peers    *routing.Peers
	webhooks *webhookconfig.Controller
	// probeObserver is set if there may be other API servers.
	probeObserver *webhookconfig.Observer
	evaluations   *evaluation.Reporter
	// everywhere runs on every replica, and leading on the leader.
	everywhere, leading []runner
	starter             *leaderstart.Starter
	collectors          []collectors
	// synced report whether the catalog holds all declarations; then loaded is closed.
	synced []cache.InformerSynced
	loaded chan struct{}
}

// runner runs until ctx ends.
type runner interface {
	Run(ctx context.Context) error
}

// assemble makes and connects all components, and runs none.
func (o *Operator) assemble(ctx context.Context) (*components, error) {
	log := o.options.Log
	cluster, err := o.newCluster(ctx)
	if err != nil {
		return nil, err
	}
	quota, err := o.newQuota(ctx, cluster)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	server, err := o.newServer(ctx, mux)
	if err != nil {
		return nil, err
	}
	peers := o.newPeers(server)
	quota.ledgers.Replicas = peers
	webhooks := o.newWebhooks(cluster, quota, server)
	server.Certificates.OnPublish(webhooks.Wake)

	loaded := make(chan struct{})
	evaluations := &evaluation.Reporter{Client: cluster.client, Catalog: quota.catalog, Events: cluster.events, Log: log.WithName("evaluation")}
	denials := &events.Latest{Events: o.client.CoreV1(), Live: cluster.live, Log: log.WithName("denials")}
	enforcer := o.newEnforcer(cluster, quota, peers, evaluations, denials, loaded)
	cluster.objects.OnAppear(enforcer.Appeared)
	resourceQuotas := o.newResourceQuotas(cluster, quota, loaded)
	controllers := o.newControllers(cluster, quota, peers, webhooks)
	route(mux, enforcer, resourceQuotas, o.newValidation(cluster, quota, controllers.grants), o.newReviewer(cluster, quota, loaded), o.newJournalReader(cluster, quota), quota.reviewed)

	follower := follow.New(quota.catalog, quota.claims, cluster.objects, cluster.kinds, log.WithName("follower"))
	declared := newDeclarations(cluster, quota, webhooks, follower, controllers)
	if err := declared.follow(ctx, enforcer, evaluations); err != nil {
		return nil, err
	}
	p := &components{
		cluster: cluster, quota: quota, server: server, peers: peers, webhooks: webhooks, probeObserver: o.newProbeObserver(), evaluations: evaluations,
		synced: declared.synced, loaded: loaded,
		everywhere: []runner{controllers.lifecycle, controllers.claim, controllers.escrow, denials, follower},
		leading:    append([]runner{webhooks}, controllers.leading...),
	}
	if o.options.LeaderElection != nil {
		// A single process is the only writer of its ledgers.
		p.everywhere = append(p.everywhere, &ledgerstore.Observer{Metadata: o.metadata, Live: cluster.live, Store: quota.ledgers, Log: log.WithName("ledgers")})
	}
	if quota.journal != nil {
		p.everywhere, p.collectors = append(p.everywhere, quota.journal), append(p.collectors, quota.journal, journalInfo{o.options.Journal.Location()})
	}
	reconcilers, err := o.addReconcilers(p, controllers, declared)
	p.collectors = append(p.collectors,
		quota.ledgers, enforcer, controllers.auditor, controllers.grants, quota.allocations, controllers.allocation, resourceQuotas,
		controllers.adoption, o.newUsage(cluster, quota, controllers), o.newGrantEnds(cluster), o.newRequests(cluster), health{o, server.Certificates},
	)
	p.collectors = append(p.collectors, reconcilers...)
	return p, err
}

// newProbeObserver returns the observer that reports this API server's webhook configurations, or nil if there is only
// one API server.
func (o *Operator) newProbeObserver() *webhookconfig.Observer {
	if o.options.Others == nil {
		return nil
	}
	return &webhookconfig.Observer{Client: o.client, SystemNamespace: o.options.SystemNamespace, Others: o.options.Others, Log: o.options.Log.WithName("observer")}
}

// reconciler is registered with the manager.
type reconciler interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// addReconcilers adds the reconcilers to the manager. It returns their metrics.
func (o *Operator) addReconcilers(p *components, controllers *controllers, declared *declarations) ([]collectors, error) {
	c, q := p.cluster, p.quota
	// storedGrants are the grants in the ledgers when this replica became the leader.
	totals := grant.NewTotals()
	storedGrants, consumers := grant.NewStored(totals), make(chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef])
	p.starter = &leaderstart.Starter{Live: c.live, Buckets: controllers.bucket, Grants: storedGrants, Consumers: consumers}
	increases := &quotaincrease.Reconciler{
		Client: c.client, Live: c.live, Definitions: &quotaincrease.Definitions{Client: c.client, Specs: q.specs},
		SystemNamespace: o.options.SystemNamespace, Events: c.events,
	}
	decisions := quotarequest.NewMetrics()
	metrics := []collectors{increases, decisions}
	reconcilers := []reconciler{
		&registration.Reconciler{Client: c.client, Live: c.live, Kinds: c.kinds, KindsChanged: declared.kindsChanged},
		&grant.Reconciler{
			Client: c.client, Live: c.live, Catalog: q.catalog, Ledgers: q.ledgers, Loaded: p.loaded, Stored: storedGrants, Totals: totals,
			RegistrationsChanged: declared.registrationsChanged, Consumers: consumers,
			Clock: &o.clock, Events: c.events, ExpiryNotice: o.options.GrantExpiryNotice.Duration,
		},
		&claimpolicy.Reconciler{
			Client: c.client, Live: c.live, Catalog: q.catalog, Kinds: c.kinds, Permission: c.permission, Listener: declared, Webhooks: p.webhooks,
			Changed: declared.policiesChanged,
		},
		&quotarequest.Reconciler{
			Client: c.client, Live: c.live, Ledgers: q.ledgers, Totals: totals, Catalog: q.catalog, Complete: []<-chan struct{}{p.loaded, storedGrants.Completed()},
			Clock: &o.clock, Events: c.events, Metrics: decisions,
		},
		increases,
		controllers.adoption,
	}
	if to := o.options.RequestNotifications; to.URL != "" {
		notifications := notification.New(c.client, c.live, notification.NewSender(to.URL, to.SecretFile, &o.clock), o.options.Log.WithName("notification"))
		reconcilers, metrics = append(reconcilers, notifications), append(metrics, notifications)
	}
	for _, reconciler := range reconcilers {
		if err := reconciler.SetupWithManager(c.manager); err != nil {
			return nil, fmt.Errorf("set up %T: %w", reconciler, err)
		}
	}
	return metrics, nil
}
