package operator

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/allocation/quotacache"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/kube/quotavalidation"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
)

// quota is the shared quota state of controllers and webhooks.
type quota struct {
	catalog *catalog.Catalog
	// policies and allocated are the gates of the catalog.
	policies  *catalog.Gate[catalog.Version]
	allocated *catalog.Gate[catalog.Digest]
	ledgers   *ledgerstore.Store
	// watcher keeps the inventory of the objects that ledgers observe.
	watcher *watcher.Watcher
	// journal takes the records of the ledgers, or is nil without a journal.
	journal *shipper.Shipper
	// history is the users' view of the journal, or nil.
	history   journal.Source
	claims    *claimcache.Cache
	client    *claims.Client
	evaluator *evaluator.Evaluator
	engine    *engine.Engine
	// allocations are the ledgers of caps on ResourceQuotas, and members their namespaces.
	allocations *allocationstore.Store
	members     *quotacache.Cache
	specs       quotavalidation.Checker
}

func (o *Operator) newQuota(ctx context.Context, c *cluster) (*quota, error) {
	declared := catalog.New()
	declared.ExceededAdvice = o.options.ExceededAdvice
	declared.ConsumerNamespaces = &naming.ConsumerNamespaces{Templates: o.options.Namespaces(), System: o.options.SystemNamespace}

	storage, err := ledgerstore.NewAPIStorage(o.options.Config, o.httpClient, o.options.Direct)
	if err != nil {
		return nil, err
	}
	ledgers := ledgerstore.New(ctx, storage)
	ledgers.ReservationLifetime = o.options.RequestTimeout.Duration + ledgerstore.ReservationMargin
	ledgers.Clock = &o.clock
	ledgers.Types = declared
	ledgers.IsDurable = o.options.Admission == config.AdmissionDurable
	recorded, history, err := o.newJournal(ctx, ledgers)
	if err != nil {
		return nil, err
	}

	known := claimcache.New()
	claimClient, err := claims.NewClient(o.options.Config, o.httpClient, o.options.Direct)
	if err != nil {
		return nil, err
	}

	members := quotacache.New(o.client, o.options.SystemNamespace)
	caps, err := allocationstore.NewAPIStorage(c.live, c.client, o.options.Config, o.httpClient)
	if err != nil {
		return nil, err
	}

	evaluator := &evaluator.Evaluator{Catalog: declared, Namespaces: c.namespaces, SystemNamespace: o.options.SystemNamespace}
	q := &quota{
		catalog:   declared,
		policies:  catalog.PoliciesGate(declared, c.live),
		allocated: catalog.AllocationsGate(declared, c.live),
		ledgers:   ledgers,
		journal:   recorded,
		history:   history,
		claims:    known,
		client:    claimClient,
		evaluator: evaluator,
		engine: engine.New(engine.Dependencies{
			Store: ledgers, Claims: known, Client: claimClient, Catalog: declared, Objects: c.objects,
			Policies: []client.Reader{c.client, c.live}, SystemNamespace: o.options.SystemNamespace, Events: c.events,
			Log: o.options.Log.WithName("engine"),
		}),
		allocations: allocationstore.New(ctx, caps, members),
		members:     members,
		specs:       quotavalidation.Checker{Quotas: o.client.CoreV1().ResourceQuotas(o.options.SystemNamespace)},
	}

	q.watcher = o.newWatcher(c, q)
	ledgers.Inventory = q.watcher
	if recorded != nil {
		o.deletions.Client = c.client
		ledgers.Deletions = o.deletions
	}
	return q, nil
}

// newWatcher returns what keeps the inventory of counted objects.
func (o *Operator) newWatcher(c *cluster, q *quota) *watcher.Watcher {
	w := &watcher.Watcher{
		Inventory: inventory.New(), Catalog: q.catalog, Resolver: c.kinds, Definitions: c.objects, Dynamic: c.dynamic, Secrets: o.secrets, Metadata: o.metadata,
		Claims: q.claims, ClaimClient: q.client.REST(), APIReader: c.live, SystemNamespace: o.options.SystemNamespace, Listener: q.ledgers,
		Log: o.options.Log.WithName("inventory"),
	}
	w.Start()
	return w
}
