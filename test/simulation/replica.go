package simulation

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/reviewed"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/controller/audit"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/escrow"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/kube/apiclient"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

const (
	systemNamespace = "bursar-system"
	// requestTimeout is the timeout of the API servers, and auditInterval the time between two audits.
	requestTimeout = 10 * time.Second
	auditInterval  = 20 * time.Second
)

// host is a machine that runs one replica after another.
type host struct {
	*World
	number int
	// thinks is the number of the preferred host, in the opinion of this one.
	thinks  atomic.Int32
	current atomic.Pointer[replica]
	// gate lets reviews and answers pass, and api the requests to the API servers.
	gate, api controlplane.Gate
}

// replica is one process of Bursar, put together as package operator does.
type replica struct {
	*host
	// working ends with the process.
	working context.Context //nolint:containedctx // the life of the process
	end     context.CancelFunc
	// isReady is set once it answers reviews.
	isReady atomic.Bool

	store    *ledgerstore.Store
	recorded *shipper.Shipper
	engine   *engine.Engine
	claims   *claimcache.Cache
	objects  *objectcache.Cache
	handler  *enforce.Handler
	reviews  *reviewed.Objects
}

// IsPreferred implements [routing.Replicas] and [ledgerstore.Replicas]: each host has its own opinion.
func (h *host) IsPreferred(quotav1alpha1.ConsumerRef) bool { return int(h.thinks.Load()) == h.number }

// IsOnly implements [routing.Replicas].
func (h *host) IsOnly() bool { return len(h.hosts) == 1 }

// CanRead implements [ledgerstore.Replicas].
func (h *host) CanRead(int64) bool { return true }

// kill ends the process in the middle of its work.
func (h *host) kill() {
	if r := h.current.Load(); r != nil {
		r.end()
	}
}

// start starts a process. An earlier one ends.
func (h *host) start() {
	h.kill()
	r := &replica{host: h}
	r.working, r.end = context.WithCancel(context.Background())
	connection := controlplane.Connect(r.working, h.World, &h.api)
	config := apiclient.WithTimeouts(&rest.Config{Host: "http://simulated", QPS: -1, Transport: connection}, apiclient.DefaultTimeouts)
	h.must(r.assemble(config))
	h.current.Store(r)
}

func (w *World) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// log returns the log of a process. It is part of the trace.
func (r *replica) log(name string) logr.Logger {
	return funcr.New(func(_, args string) { r.note("host %d, %s: %s", r.number, name, args) }, funcr.Options{})
}

// assemble makes all parts of the process and runs them, as package operator does.
func (r *replica) assemble(config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return err
	}
	onlyMetadata, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return err
	}
	claimClient, err := claims.NewClient(config, httpClient, nil)
	if err != nil {
		return err
	}
	storage, err := ledgerstore.NewAPIStorage(config, httpClient, nil)
	if err != nil {
		return err
	}
	live, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	declared := r.catalog()
	r.store = ledgerstore.New(r.working, storage)
	r.store.ReservationLifetime = requestTimeout + ledgerstore.ReservationMargin
	r.store.IsDurable = r.shape.isDurable
	r.store.Replicas = r.host
	r.recorded = shipper.New(r.store, appending{r.journal, r.working}, 250*time.Millisecond, r.log("journal"))
	r.store.Journal = r.recorded
	r.claims = claimcache.New()
	r.store.Recovery = audit.Recovery{Claims: r.claims, Live: audit.Live{Reader: live}}
	r.objects = objectcache.New(onlyMetadata, kinds{})
	evaluates := &evaluator.Evaluator{Catalog: declared, Namespaces: namespaces{}, SystemNamespace: systemNamespace}
	r.engine = engine.New(engine.Dependencies{
		Store: r.store, Claims: r.claims, Client: claimClient, Catalog: declared, Objects: r.objects, Evaluator: evaluates, Live: objects,
		Kinds: kinds{}, Policies: []client.Reader{live}, SystemNamespace: systemNamespace, Log: r.log("engine"),
	})
	r.reviews = reviewed.New(declared, enforce.AdmittedRetention(r.store.ReservationLifetime), r.log("reviewed"))
	ready := make(chan struct{})
	close(ready)
	r.handler = enforce.New(enforce.Dependencies{
		Catalog: declared, Evaluator: evaluates, Store: r.store, Objects: r.objects, Claims: r.claims, Engine: r.engine, Reviewed: r.reviews,
		Kinds: kinds{}, Live: objects, Ready: ready, Replicas: r, Policies: anyVersion{}, Log: r.log("enforce"),
	})
	r.objects.OnAppear(r.handler.Appeared)
	r.objects.OnModify(r.handler.Modified)
	r.run(live, onlyMetadata, objects, claimClient, declared)
	return nil
}

// run starts all controllers.
func (r *replica) run(live client.Client, onlyMetadata metadata.Interface, objects dynamic.Interface, claimClient *claims.Client, declared *catalog.Catalog) {
	following := &lifecycle.Controller{Store: r.store, Engine: r.engine, Objects: r.objects, Claims: r.claims, Replicas: r, Log: r.log("lifecycle")}
	following.Start()
	deciding := &claim.Controller{
		Store: r.store, Engine: r.engine, Claims: r.claims, Client: claimClient, Catalog: declared, Replicas: r, Log: r.log("claim"),
	}
	deciding.Start()
	r.objects.OnVanish(deciding.ObjectVanished)
	adopter := &adoption.Controller{
		Client: live, Catalog: declared, Kinds: kinds{}, Live: objects, Objects: r.objects, Claims: r.claims, Store: r.store, Engine: r.engine,
		Namespaces: namespaces{}, Reviews: r, SystemNamespace: systemNamespace, Log: r.log("adoption"),
	}
	components := []interface {
		Run(ctx context.Context) error
	}{
		following, deciding, r.recorded, &escrow.Controller{Store: r.store, Adopter: adopter, Log: r.log("escrow")},
	}
	// Leases overlap, so two may lead.
	if r.roll(2) == 0 {
		r.processes.Go(func() { r.scan(adopter) })
		components = append(components, audit.New(audit.Options{
			Ledgers: r.store, Claims: r.claims, Stored: audit.Live{Reader: live}, Interval: auditInterval, Engine: r.engine, Log: r.log("audit"),
		}))
	}
	if !r.IsOnly() {
		components = append(components, &ledgerstore.Observer{Metadata: onlyMetadata, Live: live, Store: r.store, Log: r.log("ledgers")})
	}
	r.processes.Go(func() {
		for r.working.Err() == nil && r.preload(live) != nil {
			pause(r.working, time.Second)
		}
		for _, component := range components {
			r.processes.Go(func() { _ = component.Run(r.working) })
		}
		r.objects.Follow(r.working, map[schema.GroupKind]schema.GroupVersionResource{{Kind: "ConfigMap"}: configMaps})
		r.processes.Go(func() { r.claims.Run(r.working, claimClient.REST()) })
		r.isReady.Store(true)
		<-r.working.Done()
		r.engine.Queue().ShutDown()
	})
}

// scan charges the objects without a claim, as a new leader does.
func (r *replica) scan(adopter *adoption.Controller) {
	for r.working.Err() == nil {
		if _, err := adopter.AdoptSince(r.working, r.began); err == nil {
			return
		}
		pause(r.working, 5*time.Second)
	}
}

func (r *replica) preload(live client.Reader) error {
	return ledgerstore.EachPage(r.working, live, func(ledgers []quotav1alpha1.ConsumerLedger) error { return r.store.Preload(r.working, ledgers) })
}

// retire ends the process as an update of the deployment does.
func (r *replica) retire() {
	r.isReady.Store(false)
	ctx, cancel := context.WithTimeout(r.working, 3*time.Second)
	defer cancel()
	_ = r.store.Flush(ctx)
	r.end()
}

// kinds is the discovery of a cluster with a policy on ConfigMaps.
type kinds struct{}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// VersionedResourceFor implements [discoverycache.Resolver].
func (kinds) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return configMaps, true, nil
}

// StateOf implements [discoverycache.States].
func (kinds) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Served, configMaps, nil
}

// DefinitionDeleted implements [discoverycache.States].
func (kinds) DefinitionDeleted(schema.GroupKind) bool { return false }

// KindOf implements [enforce.Kinds].
func (kinds) KindOf(context.Context, schema.GroupVersionResource) (schema.GroupVersionKind, bool, error) {
	return schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, true, nil
}

// ReplicasPath implements [enforce.Kinds].
func (kinds) ReplicasPath(context.Context, schema.GroupVersionResource) ([]string, error) {
	return nil, nil
}

// anyVersion implements [enforce.Gate]: the policies never change.
type anyVersion struct{}

// Wait implements [enforce.Gate].
func (anyVersion) Wait(context.Context, catalog.Version) error { return nil }

// namespaces implements [evaluator.Namespaces] and [adoption.Namespaces]: every namespace exists, and never changes.
type namespaces struct{}

// Active implements [evaluator.Namespaces].
func (namespaces) Active(context.Context, string) (bool, error) { return true, nil }

// Object implements [evaluator.Namespaces].
func (namespaces) Object(_ context.Context, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, nil
}

// AwaitCurrent implements [adoption.Namespaces].
func (namespaces) AwaitCurrent(context.Context) error { return nil }
