package simulation

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/escrow"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/controller/view"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/kube/informer"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// clients are the clients of one process.
type clients struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	claims   *claims.Client
	live     client.Client
	ledgers  ledgerstore.Storage
}

func newClients(config *rest.Config) (*clients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &clients{}
	var errs [5]error
	c.objects, errs[0] = dynamic.NewForConfigAndClient(config, httpClient)
	c.metadata, errs[1] = metadata.NewForConfigAndClient(config, httpClient)
	c.claims, errs[2] = claims.NewClient(config, httpClient, nil)
	c.ledgers, errs[3] = ledgerstore.NewAPIStorage(config, httpClient, nil)
	c.live, errs[4] = client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	return c, errors.Join(errs[:]...)
}

// assemble makes all parts of the process and runs them, as package operator does.
func (r *replica) assemble(config *rest.Config) (err error) {
	if r.clients, err = newClients(config); err != nil {
		return err
	}
	if r.known, err = ctrlcache.New(config, ctrlcache.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return err
	}
	r.namespaces = &namespaces.Namespaces{Cached: namespaceReader{r.known}, Live: r.clients.live}
	r.makeStore()
	r.makeHandler()
	components := r.makeControllers()
	r.processes.Go(func() { _ = r.known.Start(r.working) })
	r.processes.Go(func() { r.run(components) })
	return nil
}

// makeStore makes the ledgers, and what they count.
func (r *replica) makeStore() {
	c := r.clients
	r.declared = catalog.New()
	r.store = ledgerstore.New(r.working, c.ledgers)
	r.store.ReservationLifetime = requestTimeout + ledgerstore.ReservationMargin
	r.store.IsDurable = r.shape.isDurable
	r.store.Replicas = r.host
	r.recorded = shipper.New(r.store, appending{r.journal, r.working}, 250*time.Millisecond, r.log("journal"))
	r.store.Journal = r.recorded
	r.claims = claimcache.New()
	r.objects = objectcache.New(c.metadata, kinds{})
	r.watcher = &watcher.Watcher{
		Inventory: inventory.New(), Catalog: r.declared, Resolver: kinds{}, Definitions: r.objects, Dynamic: c.objects, Metadata: c.metadata,
		Claims: r.claims, ClaimClient: c.claims.REST(), APIReader: c.live, SystemNamespace: systemNamespace, Listener: r.store, Log: r.log("inventory"),
	}
	r.watcher.Start()
	r.store.Inventory = r.watcher
}

// makeHandler makes the webhook, and what it decides with.
func (r *replica) makeHandler() {
	c := r.clients
	r.evaluator = &evaluator.Evaluator{Catalog: r.declared, Namespaces: r.namespaces, SystemNamespace: systemNamespace}
	r.engine = engine.New(engine.Dependencies{
		Store: r.store, Claims: r.claims, Client: c.claims, Catalog: r.declared, Objects: r.objects,
		Policies: []client.Reader{c.live}, SystemNamespace: systemNamespace, Events: &events.FakeRecorder{},
		Log: r.log("engine"),
	})
	ready := make(chan struct{})
	close(ready)
	r.handler = enforce.New(enforce.Dependencies{
		Catalog: r.declared, Evaluator: r.evaluator, Store: r.store, Objects: r.objects, Claims: r.claims, Inventory: r.watcher.Inventory,
		Engine: r.engine, Kinds: kinds{}, Live: c.objects, Ready: ready, Replicas: r, Policies: catalog.PoliciesGate(r.declared, c.live),
		Log: r.log("enforce"),
	})
	r.objects.OnAppear(r.handler.Appeared)
	r.objects.OnModify(r.handler.Modified)
}

// component is a part that runs as long as the process.
type component interface {
	Run(ctx context.Context) error
}

// makeControllers makes all controllers, to be run.
func (r *replica) makeControllers() []component {
	c := r.clients
	following := &lifecycle.Controller{Store: r.store, Engine: r.engine, Objects: r.objects, Claims: r.claims, Replicas: r, Log: r.log("lifecycle")}
	following.Start()
	deciding := &claim.Controller{
		Store: r.store, Engine: r.engine, Claims: r.claims, Client: c.claims, Catalog: r.declared, Replicas: r, Log: r.log("claim"),
	}
	deciding.Start()
	r.objects.OnVanish(deciding.ObjectVanished)
	components := []component{
		r.watcher, following, deciding, r.recorded,
		&escrow.Controller{Store: r.store, Observed: r.watcher, Log: r.log("escrow")},
	}
	// Leases overlap, so two may lead.
	if r.roll(2) == 0 {
		components = append(components, r.beginViews())
	}
	r.watcher.OnChange(r.demandChanged)
	if !r.IsOnly() {
		components = append(components, &ledgerstore.Observer{Metadata: c.metadata, Live: c.live, Store: r.store, Log: r.log("ledgers")})
	}
	return components
}

// beginViews begins a term as the leader, who writes the views. It returns their controller, to be run.
func (r *replica) beginViews() *view.Controller {
	views := &view.Controller{
		Inventory: r.watcher.Inventory, Catalog: r.declared, Evaluator: r.evaluator, Views: claimcache.NewViews(), Client: r.clients.claims,
		Kinds: kinds{}, Live: r.clients.objects, SystemNamespace: systemNamespace, Events: &events.FakeRecorder{}, Log: r.log("views"),
	}
	views.Start()
	r.views.Store(views)
	return views
}

// demandChanged has the views follow what an object demands, or with an empty UID all objects of a kind.
func (r *replica) demandChanged(kind schema.GroupVersionKind, uid types.UID) {
	switch views := r.views.Load(); {
	case views == nil:
	case uid == "":
		views.KindChanged(kind.GroupKind())
	default:
		views.ObjectChanged(kind.GroupKind(), uid)
	}
}

// followDeclarations has the catalog follow the declarations, and returns once it has all of them, or the process ends.
func (r *replica) followDeclarations() {
	policies := informer.Handler(
		func(object *quotav1alpha1.ClaimCreationPolicy) {
			_ = r.declared.SetPolicy(object) // it compiles
			r.watcher.Refresh()
		},
		func(name string) { r.declared.RemovePolicy(name); r.watcher.Refresh() },
	)
	registrations := informer.Handler(
		func(object *quotav1alpha1.ResourceRegistration) {
			r.declared.SetRegistration(object)
			r.watcher.Refresh()
		},
		func(name string) { r.declared.RemoveRegistration(name); r.watcher.Refresh() },
	)
	arePolicies, errPolicies := informer.Follow(r.working, r.known, &quotav1alpha1.ClaimCreationPolicy{}, policies)
	areRegistrations, errRegistrations := informer.Follow(r.working, r.known, &quotav1alpha1.ResourceRegistration{}, registrations)
	if errPolicies == nil && errRegistrations == nil {
		cache.WaitForCacheSync(r.working.Done(), arePolicies, areRegistrations)
	}
}

// run runs the process until it ends.
func (r *replica) run(components []component) {
	r.followDeclarations()
	for r.working.Err() == nil && r.preload() != nil {
		pause(r.working, time.Second)
	}
	for _, component := range components { // also in a process that has ended, so that they release what they have
		r.processes.Go(func() { _ = component.Run(r.working) })
	}
	r.objects.Follow(r.working, map[schema.GroupKind]schema.GroupVersionResource{{Kind: "ConfigMap"}: configMaps})
	r.isReady.Store(true)
	<-r.working.Done()
	r.engine.Queue().ShutDown()
}

func (r *replica) preload() error {
	return ledgerstore.EachPage(r.working, r.clients.live, func(ledgers []quotav1alpha1.ConsumerLedger) error { return r.store.Preload(r.working, ledgers) })
}
