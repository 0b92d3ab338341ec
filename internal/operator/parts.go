package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/admission/resourcequota"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/reviewed"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/controller/allocation"
	"github.com/bursar/bursar/internal/controller/audit"
	"github.com/bursar/bursar/internal/controller/bucket"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/claimpolicy"
	"github.com/bursar/bursar/internal/controller/claimpolicy/evaluation"
	"github.com/bursar/bursar/internal/controller/departed"
	"github.com/bursar/bursar/internal/controller/follow"
	"github.com/bursar/bursar/internal/controller/grant"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/controller/quotaincrease"
	"github.com/bursar/bursar/internal/controller/registration"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
	"github.com/bursar/bursar/internal/usage"
)

// parts is everything that runs, wired together.
type parts struct {
	*models
	server *server.Server
	// peers are the other replicas, or nil if there are none or they cannot be asked.
	peers    *routing.Peers
	enforcer *enforce.Handler
	// denials are the events on what was denied.
	denials *events.Latest
	// quotas answers the reviews of ResourceQuotas.
	quotas   *resourcequota.Handler
	webhooks *webhookconfig.Controller
	// probeObserver is there if there may be other API servers.
	probeObserver *webhookconfig.Observer
	lifecycle     *lifecycle.Controller
	adoption      *adoption.Controller
	claim         *claim.Controller
	bucket        *bucket.Controller
	auditor       *audit.Auditor
	departed      *departed.Controller
	grants        *grantpolicy.Controller
	// allocation keeps the caps on ResourceQuotas in line with the cluster.
	allocation *allocation.Controller
	// evaluations reports policies that cannot be applied.
	evaluations *evaluation.Reporter
	// increases keeps the ResourceQuotas of namespaces as definitions and increases say.
	increases *quotaincrease.Reconciler
	// notifier tells consumers that they come close to their limits.
	notifier *usage.Notifier
	follower *follow.Controller
	observer *ledgerstore.Observer
	// liveClaims reads the claims of a consumer from the API server.
	liveClaims func(context.Context, quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error)
	// loaded is closed once registrations and policies are in the catalog.
	loaded chan struct{}
	log    logr.Logger

	kindsChanged         changes
	policiesChanged      changes
	registrationsChanged changes
	consumers            chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef]
	// storedGrants are those that the ledgers held when this replica began to lead.
	storedGrants *grant.Stored
	synced       []cache.InformerSynced
}

// assemble makes all parts and connects them. Nothing runs yet. Each step may use what the steps before it made.
func (o *Operator) assemble(ctx context.Context) (*parts, error) {
	m, err := o.newModels(ctx)
	if err != nil {
		return nil, err
	}
	p := o.newParts(m)
	policies, allocations := catalog.PoliciesGate(m.catalog, m.manager.GetAPIReader()), catalog.AllocationsGate(m.catalog, m.manager.GetAPIReader())
	p.addEnforcement(o, policies)
	p.addAllocations(o, allocations)
	if err := p.addServer(ctx, o); err != nil {
		return nil, err
	}
	p.addWebhooks(o, policies, allocations)
	p.addClaims(o)
	p.addViews(o)
	p.addAudits(o)
	if p.grants, err = o.newGrantPolicies(m, o.options.Log); err != nil {
		return nil, err
	}
	p.connect()
	if err := errors.Join(p.followCatalog(ctx), p.followAllocations(ctx)); err != nil {
		return nil, err
	}
	return p, p.addReconcilers()
}

func (o *Operator) newParts(m *models) *parts {
	return &parts{
		models:               m,
		liveClaims:           audit.LiveClaims(m.manager.GetAPIReader()),
		loaded:               make(chan struct{}),
		log:                  o.options.Log.WithName("operator"),
		kindsChanged:         newChanges(),
		policiesChanged:      newChanges(),
		registrationsChanged: newChanges(),
		consumers:            make(chan event.TypedGenericEvent[quotav1alpha1.ConsumerRef]),
		storedGrants:         grant.NewStored(),
	}
}

// addEnforcement adds what decides on requests by policies, and what becomes of the objects and the claims afterwards.
func (p *parts) addEnforcement(o *Operator, policies *catalog.Gate[catalog.Version]) {
	m, log := p.models, o.options.Log
	p.lifecycle = &lifecycle.Controller{
		Store: m.store, Engine: m.engine, Objects: m.objects, Claims: m.claims, Preferred: p.isPreferred, Log: log.WithName("lifecycle"),
	}
	p.evaluations = &evaluation.Reporter{Client: m.manager.GetClient(), Allows: m.catalog.Allows, Events: m.events, Log: log.WithName("evaluation")}
	p.denials = &events.Latest{Events: o.client.CoreV1(), Log: log.WithName("denials")}
	m.reviewed = reviewed.New(m.catalog, enforce.RememberFor(m.store.ReservationLifetime), log.WithName("reviewed"))
	surroundings := surroundings{p, o}
	p.enforcer = enforce.New(enforce.Dependencies{
		Catalog: m.catalog, Evaluator: m.evaluator, Store: m.store, Objects: m.objects, Claims: m.claims, Engine: m.engine, Reviewed: m.reviewed,
		Kinds: m.kinds, Live: m.dynamic, Events: m.events, Evaluations: p.evaluations, Denials: surroundings, Permissions: surroundings,
		Consumers: surroundings, MaxObjectBytes: o.options.MaxObjectBytes, Ready: p.loaded, Replicas: surroundings, Policies: policies,
		Log: log.WithName("enforce"),
	})
	m.store.IsPreferred = p.isPreferred
	m.objects.OnAppear(p.enforcer.Appeared)
}

// addAllocations adds what decides on ResourceQuotas, and what keeps them in line with the cluster.
func (p *parts) addAllocations(o *Operator, allocations *catalog.Gate[catalog.Digest]) {
	m, log := p.models, o.options.Log
	p.quotas = resourcequota.New(resourcequota.Dependencies{
		Catalog: m.catalog, Books: m.allocations, Namespace: o.namespaceOf, MaySee: o.maySee, MayEdit: o.mayEditAllocation, Username: o.options.Username,
		Ready: p.loaded, Current: allocations.Wait, Log: log.WithName("resourcequotas"),
	})
	p.allocation = &allocation.Controller{
		Catalog: m.catalog, Books: m.allocations, Projects: m.projects, Client: m.manager.GetClient(), Live: m.manager.GetAPIReader(),
		InEffect:    func(entered int64) (bool, bool) { return p.webhooks.AllocationInEffect(entered), p.webhooks.Synced() },
		PendingTime: o.options.RequestTimeout.Duration + allocationstore.PendingMargin, Events: m.events, Log: log.WithName("allocation"),
	}
}

// addServer adds the server that the API server asks, and the way to the other replicas.
func (p *parts) addServer(ctx context.Context, o *Operator) (err error) {
	p.server, err = server.New(ctx, o.options.Webhooks, server.Dependencies{
		Client: o.client, Namespace: o.options.SystemNamespace,
		Authorities: func(ctx context.Context) ([][]byte, error) { return webhookconfig.Authorities(ctx, o.client) },
		OnPublish:   func() { p.webhooks.Wake() }, Log: o.options.Log,
	}, p.routes(o))
	if err != nil {
		return err
	}
	if webhooks := o.options.Webhooks; o.options.LeaderElection != nil && webhooks.PeerAddress != "" {
		p.peers = &routing.Peers{
			Client: o.client, Namespace: o.options.SystemNamespace, Address: webhooks.PeerAddress, ServerName: p.server.Host,
			Roots: p.server.Certificates.Bundle, Path: p.server.Gate.PeerPath, Log: o.options.Log.WithName("peers"),
		}
	}
	return nil
}

// addWebhooks adds what has the API server ask, and what reports what it asks by.
func (p *parts) addWebhooks(o *Operator, policies *catalog.Gate[catalog.Version], allocations *catalog.Gate[catalog.Digest]) {
	m, log, system := p.models, o.options.Log, o.options.SystemNamespace
	p.webhooks = &webhookconfig.Controller{
		Client: o.client, Catalog: m.catalog, Kinds: m.kinds, Current: policies.Wait, CurrentAllocations: allocations.Wait,
		ClientConfig: p.server.ClientConfig,
		Static: func() []admissionregistrationv1.ValidatingWebhook {
			return validate.ValidatingWebhooks(p.server.ClientConfig, o.options.Username, system)
		},
		Mutating: func() []admissionregistrationv1.MutatingWebhook {
			return validate.MutatingWebhooks(p.server.ClientConfig, o.options.Username)
		},
		Username: o.options.Username, SystemNamespace: system, Others: o.options.Others,
		OnSync: p.webhooksChanged, Log: log.WithName("webhooks"),
	}
	if o.options.Others != nil {
		p.probeObserver = &webhookconfig.Observer{Client: o.client, SystemNamespace: system, Others: o.options.Others, Log: log.WithName("observer")}
	}
}

// addClaims adds what makes and decides claims without a request: for objects that exist already, and for those that wait.
func (p *parts) addClaims(o *Operator) {
	m, log, system := p.models, o.options.Log, o.options.SystemNamespace
	p.adoption = &adoption.Controller{
		Client: m.manager.GetClient(), Catalog: m.catalog, Kinds: m.kinds, Live: m.dynamic, Objects: m.objects, Claims: m.claims, Store: m.store,
		Engine: m.engine, Leadership: surroundings{p, o}, Leases: o.client.CoordinationV1().Leases(system), Reviews: surroundings{p, o},
		SystemNamespace: system, Clock: &o.clock, Events: m.events, Log: log.WithName("adoption"),
	}
	p.claim = &claim.Controller{
		Store: m.store, Engine: m.engine, Claims: m.claims, Client: m.client, Catalog: m.catalog, Preferred: p.isPreferred, Log: log.WithName("claim"),
	}
	p.follower = follow.New(m.catalog, m.claims, m.objects, m.kinds, log.WithName("follower"))
}

// addViews adds what shows consumers their quota, and tells them that they come close to a limit.
func (p *parts) addViews(o *Operator) {
	m, log := p.models, o.options.Log
	p.bucket = &bucket.Controller{
		Client: m.manager.GetClient(), Ledgers: m.store, Catalog: m.catalog, SystemNamespace: o.options.SystemNamespace,
		Namespaces: o.options.Namespaces(), Events: m.events, Log: log.WithName("bucket"),
	}
	p.notifier = &usage.Notifier{
		Buckets: m.buckets, Thresholds: o.thresholds(m), Registrations: m.catalog, Events: m.events, Log: log.WithName("usage"),
	}
}

// addAudits adds what looks for differences between ledgers, claims and consumers.
func (p *parts) addAudits(o *Operator) {
	m, log := p.models, o.options.Log
	p.auditor = audit.New(audit.Options{
		Ledgers: m.store, Claims: m.claims,
		ListLedgers: audit.ListLedgers(m.manager.GetAPIReader()), LiveClaims: p.liveClaims,
		Events: m.events, Interval: o.options.AuditInterval.Duration, Log: log.WithName("audit"),
	})
	finder := &departed.Finder{Metadata: o.metadata, Kinds: m.kinds, Permission: m.permission}
	p.departed = &departed.Controller{
		Client: m.manager.GetClient(), Live: m.manager.GetAPIReader(), Shown: p.bucket, Claims: m.claims, LiveClaims: p.liveClaims,
		Find: finder.Find, Interval: o.options.DepartedInterval.Duration, Log: log.WithName("departed"),
	}
	p.observer = &ledgerstore.Observer{Metadata: o.metadata, Live: m.manager.GetAPIReader(), Store: m.store, Log: log.WithName("ledgers")}
}

// connect tells every part who listens to it.
func (p *parts) connect() {
	p.bucket.Start()
	p.store.Subscribe(p.bucket.Changed)
	p.store.Recover = p.recover
	p.lifecycle.Start()
	p.adoption.Start()
	p.claim.Start()
	p.allocation.Start()
	p.objects.OnVanish(p.claim.ObjectVanished)
	p.objects.Expect(func(kind schema.GroupKind) bool { return len(p.catalog.PoliciesOf(kind)) > 0 })
	p.claims.OnChange(p.showWaiting)
	p.kinds.OnChange(func() {
		p.kindsChanged.notify()
		p.policiesChanged.notify()
		p.webhooks.Wake()
		p.follower.Wake()
		p.grants.Wake()
	})
}

// showWaiting makes sure that whoever waits for quota finds a bucket, also before there is a grant.
func (p *parts) showWaiting(before, after *claimcache.Claim) {
	if after != nil && after.State == claimcache.Waiting && (before == nil || before.State != claimcache.Waiting) {
		p.bucket.Need(after.Consumer(), after.Requests())
	}
}

// followCatalog keeps the catalog in step with registrations and policies.
func (p *parts) followCatalog(ctx context.Context) error {
	registrations := handlers[*quotav1alpha1.ResourceRegistration]{
		set:     p.catalog.SetRegistration,
		remove:  p.catalog.RemoveRegistration,
		changed: p.registrationChanged,
	}
	policies := handlers[*quotav1alpha1.ClaimCreationPolicy]{
		// Why a policy does not compile is for its own controller to report.
		set: func(object *quotav1alpha1.ClaimCreationPolicy) {
			_ = p.catalog.SetPolicy(object)
			p.enforcer.PolicySet(object.Name)
		},
		remove: func(name string) {
			p.catalog.RemovePolicy(name)
			p.evaluations.Forget(name)
		},
		changed: p.policyChanged,
	}
	for object, handler := range map[client.Object]cache.ResourceEventHandler{
		&quotav1alpha1.ResourceRegistration{}: registrations.forInformer(),
		&quotav1alpha1.ClaimCreationPolicy{}:  policies.forInformer(),
	} {
		if err := p.followInformer(ctx, object, handler); err != nil {
			return err
		}
	}
	return nil
}

// followInformer has a handler hear of all objects of a kind. What it was told of is complete once p.synced are.
func (p *parts) followInformer(ctx context.Context, object client.Object, handler cache.ResourceEventHandler) error {
	informer, err := p.manager.GetCache().GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("follow %T: %w", object, err)
	}
	handle, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("follow %T: %w", object, err)
	}
	p.synced = append(p.synced, handle.HasSynced)
	return nil
}

// handlers turns an informer's events on one kind into calls.
type handlers[T client.Object] struct {
	set     func(T)
	remove  func(name string)
	changed func()
}

func (h handlers[T]) forInformer() cache.ResourceEventHandler {
	set := func(object any) {
		h.set(object.(T))
		h.changed()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				h.remove(key)
				h.changed()
			}
		},
	}
}

func (p *parts) registrationChanged() {
	p.registrationsChanged.notify()
	p.policyChanged()
	p.bucket.RegistrationsChanged()
	p.grants.Wake()
	if p.claims.HasSynced() {
		p.claim.RegistrationsChanged()
	}
}

// webhooksChanged is called once the API server asks about what it has to be asked about by now.
func (p *parts) webhooksChanged() {
	p.policiesChanged.notify()
	for _, a := range p.catalog.Allocations() {
		p.allocation.AllocationChanged(a.Name)
	}
}

func (p *parts) policyChanged() {
	p.policiesChanged.notify()
	p.webhooks.Wake()
	p.follower.Wake()
}

func (p *parts) addReconcilers() error {
	api, live := p.manager.GetClient(), p.manager.GetAPIReader()
	p.increases = &quotaincrease.Reconciler{
		Client: api, Live: live, Definitions: &quotaincrease.Definitions{Client: api, Check: p.quotaSpecs.Check}, SystemNamespace: p.evaluator.SystemNamespace, Events: p.events,
	}
	for _, reconciler := range []interface {
		SetupWithManager(ctrl.Manager) error
	}{
		&registration.Reconciler{Client: api, Live: live, Kinds: p.kinds, KindsChanged: p.kindsChanged},
		&grant.Reconciler{Client: api, Live: live, Catalog: p.catalog, Ledgers: p.store, Loaded: p.loaded, Stored: p.storedGrants, RegistrationsChanged: p.registrationsChanged, Consumers: p.consumers},
		&claimpolicy.Reconciler{Client: api, Catalog: p.catalog, Kinds: p.kinds, Permission: p.permission, Withheld: p.policyChanged, InEffect: p.webhooks.InEffect, Changed: p.policiesChanged},
		p.increases,
		p.bucket,
		p.adoption,
	} {
		if err := reconciler.SetupWithManager(p.manager); err != nil {
			return fmt.Errorf("set up %T: %w", reconciler, err)
		}
	}
	return nil
}

// isPreferred reports whether this replica is the preferred one of a consumer.
func (p *parts) isPreferred(consumer quotav1alpha1.ConsumerRef) bool {
	return p.peers.IsPreferred(consumer)
}
