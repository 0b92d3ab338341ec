package operator

import (
	"context"
	"net/http"

	"k8s.io/client-go/tools/cache"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/controller/claimpolicy/evaluation"
	"github.com/bursar/bursar/internal/controller/follow"
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
	peers *routing.Peers
	// leading does the leader's work while this replica leads.
	leading *leading
	// probeObserver is set if there may be other API servers.
	probeObserver *webhookconfig.Observer
	evaluations   *evaluation.Reporter
	// everywhere runs on every replica.
	everywhere []runner
	collectors []collectors
	// synced report whether the catalog holds all declarations; then loaded is closed.
	synced []cache.InformerSynced
	loaded chan struct{}
}

// runner runs until ctx ends.
type runner interface {
	Run(ctx context.Context) error
}

// assemble makes and connects all components, and runs none. They work until ctx ends, and the ledgers until storing
// ends.
func (o *Operator) assemble(ctx, storing context.Context) (*components, error) {
	log := o.options.Log
	cluster, err := o.newCluster(ctx)
	if err != nil {
		return nil, err
	}
	quota, err := o.newQuota(storing, cluster)
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
	loaded := make(chan struct{})
	leading := &leading{operator: o, cluster: cluster, quota: quota, server: server, peers: peers, loaded: loaded, log: log.WithName("leader")}
	server.Certificates.OnPublish(leading.WakeWebhooks)
	quota.ledgers.Subscribe(leading.ledgerChanged)
	quota.claims.OnChange(leading.claimChanged)
	quota.watcher.OnChange(leading.demandChanged)

	evaluations := &evaluation.Reporter{Client: cluster.client, Catalog: quota.catalog, Events: cluster.events, Log: log.WithName("evaluation")}
	denials := &events.Latest{Events: o.client.CoreV1(), Live: cluster.live, Log: log.WithName("denials")}
	enforcer := o.newEnforcer(cluster, quota, peers, evaluations, denials, loaded)
	leading.held = enforcer
	cluster.objects.OnAppear(enforcer.Appeared)
	cluster.objects.OnModify(enforcer.Modified)
	ends := o.newReporter(peers, enforcer)
	resourceQuotas := o.newResourceQuotas(cluster, quota, loaded)
	controllers := o.newControllers(cluster, quota, peers)
	histories := o.newJournalReader(cluster, quota)
	handlers{
		enforcer: enforcer, resourceQuotas: resourceQuotas, validation: o.newValidation(cluster, quota, o.newGrantPolicies(cluster, quota)),
		reviewer: o.newReviewer(cluster, quota, loaded), histories: histories, usages: o.newUsageAnswerer(cluster, quota, loaded),
		authenticator: server.Authenticator, ends: ends, peers: peers,
	}.route(mux)

	follower := follow.New(quota.catalog, quota.claims, cluster.objects, cluster.kinds, log.WithName("follower"))
	declared := newDeclarations(cluster, quota, leading, follower, controllers.claim)
	leading.declared = declared
	if err := o.followDeclarations(ctx, declared, enforcer, evaluations); err != nil {
		return nil, err
	}
	p := &components{
		cluster: cluster, quota: quota, server: server, peers: peers, leading: leading, probeObserver: o.newProbeObserver(), evaluations: evaluations,
		synced: declared.synced, loaded: loaded,
		everywhere: []runner{
			quota.watcher, controllers.lifecycle, controllers.claim, controllers.escrow, denials, follower, histories, ends,
			&access.Exposures{Authenticator: server.Authenticator, Publisher: leading, Replicas: peers, Log: log.WithName("webhooks")},
		},
	}
	o.followLedgers(p)
	p.collectors = append(p.collectors,
		quota.ledgers, enforcer, ends, quota.allocations, resourceQuotas, histories,
		o.newUsage(cluster, quota, leading, controllers.claim), o.newGrantEnds(cluster, leading), o.newRequests(cluster, leading), health{o, server.Certificates},
	)
	return p, nil
}

// followLedgers adds what follows the ledgers in every replica: the writes of other replicas, and the journal.
func (o *Operator) followLedgers(p *components) {
	if o.options.LeaderElection != nil { // a single process is the only writer of its ledgers
		p.everywhere = append(p.everywhere, &ledgerstore.Observer{
			Metadata: o.metadata, Live: p.cluster.live, Store: p.quota.ledgers, Log: o.options.Log.WithName("ledgers"),
		})
	}
	if journal := p.quota.journal; journal != nil {
		p.everywhere = append(p.everywhere, journal)
		p.collectors = append(p.collectors, journal, journalInfo{o.options.Journal.Location()})
	}
}

// followDeclarations follows all declarations of administrators that this operator serves.
func (o *Operator) followDeclarations(ctx context.Context, declared *declarations, enforcer *enforce.Handler, evaluations *evaluation.Reporter) error {
	if err := declared.follow(ctx, enforcer, evaluations); err != nil {
		return err
	}
	if !o.options.ResourceQuotas.ServesAllocations() {
		return nil
	}
	return declared.followAllocations(ctx)
}

// newProbeObserver returns the observer that reports this API server's webhook configurations, or nil if there is only
// one API server.
func (o *Operator) newProbeObserver() *webhookconfig.Observer {
	if o.options.Others == nil {
		return nil
	}
	return &webhookconfig.Observer{Client: o.client, SystemNamespace: o.options.SystemNamespace, Others: o.options.Others, Log: o.options.Log.WithName("observer")}
}
