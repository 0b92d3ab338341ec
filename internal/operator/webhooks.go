package operator

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/cel/openapi/resolver"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/audited"
	"github.com/bursar/bursar/internal/admission/caution"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/admission/preview"
	"github.com/bursar/bursar/internal/admission/quotahistory"
	"github.com/bursar/bursar/internal/admission/quotareview"
	"github.com/bursar/bursar/internal/admission/quotausage"
	"github.com/bursar/bursar/internal/admission/resourcequota"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/controller/claimpolicy/evaluation"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/quotarequest"
	"github.com/bursar/bursar/internal/controller/registration"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/routing"
)

// newServer returns the server for the API server and other replicas. Add the paths to the handler before it runs.
func (o *Operator) newServer(ctx context.Context, handler http.Handler) (*server.Server, error) {
	return server.New(ctx, o.options.Webhooks, server.Dependencies{
		Client: o.client, Namespace: o.options.SystemNamespace, Published: webhookconfig.Published{Client: o.client}, Log: o.options.Log,
	}, handler)
}

// newPeers returns the other replicas, or nil if there can be none.
func (o *Operator) newPeers(s *server.Server) *routing.Peers {
	if o.options.LeaderElection == nil {
		return nil
	}
	return &routing.Peers{
		Client: o.client, Namespace: o.options.SystemNamespace, Address: o.options.Webhooks.PeerAddress, ServerName: s.Host,
		Certificates: s.Certificates, Paths: s.Authenticator, Log: o.options.Log.WithName("peers"),
	}
}

// newWebhooks returns the controller of the webhook configurations.
func (o *Operator) newWebhooks(c *cluster, q *quota, s *server.Server) *webhookconfig.Controller {
	username, system := o.options.Username, o.options.SystemNamespace
	return &webhookconfig.Controller{
		Client: o.client, Catalog: q.catalog, Kinds: c.kinds, Policies: q.policies, Allocations: q.allocated,
		Server: s, Own: validate.OwnKinds{Server: s, Username: username, SystemNamespace: system, Except: o.options.ResourceQuotas.Unserved()},
		Username: username, SystemNamespace: system, Others: o.options.Others, Log: o.options.Log.WithName("webhooks"),
	}
}

// newEnforcer returns the webhook for decisions on requests by policies.
func (o *Operator) newEnforcer(c *cluster, q *quota, peers *routing.Peers, evaluations *evaluation.Reporter, denials *events.Latest, loaded <-chan struct{}) *enforce.Handler {
	return enforce.New(enforce.Dependencies{
		Catalog: q.catalog, Evaluator: q.evaluator, Store: q.ledgers, Objects: c.objects, Claims: q.claims, Inventory: q.watcher.Inventory,
		Engine: q.engine, Kinds: c.kinds, Live: c.dynamic, Events: c.events, Evaluations: evaluations,
		Denials:     &enforce.EffectiveGrantEvents{Catalog: q.catalog, Events: denials},
		Permissions: c.users, Consumers: &enforce.ConsumerObjects{Kinds: c.kinds, Objects: c.objects},
		MaxObjectBytes: o.options.MaxObjectBytes, Ready: loaded, Replicas: peers, Policies: q.policies, Log: o.options.Log.WithName("enforce"),
	})
}

// newReporter returns the reporter of ended requests. The embedded API server passes its audit events to it
// from now on.
func (o *Operator) newReporter(peers *routing.Peers, enforcer *enforce.Handler) *audited.Reporter {
	reporter := audited.NewReporter(peers, enforcer, o.options.Log.WithName("ended"))
	if o.options.Audit != nil {
		o.options.Audit.Handle(reporter)
	}
	return reporter
}

// newResourceQuotas returns the webhook for decisions on ResourceQuotas.
func (o *Operator) newResourceQuotas(c *cluster, q *quota, loaded <-chan struct{}) *resourcequota.Handler {
	return resourcequota.New(resourcequota.Dependencies{
		Catalog: q.catalog, Ledgers: q.allocations, Namespaces: namespaces.Live{Metadata: o.metadata}, Permissions: c.users, Username: o.options.Username,
		Ready: loaded, Declared: q.allocated, Log: o.options.Log.WithName("resourcequotas"),
	})
}

// newValidation returns the webhooks for the validation of Bursar's own kinds.
func (o *Operator) newValidation(c *cluster, q *quota, grants *grantpolicy.Controller) *validate.Webhooks {
	webhooks := &validate.Webhooks{
		Username: o.options.Username, SystemNamespace: o.options.SystemNamespace,
		Registrations: registration.Stored{Live: c.live}, Catalog: q.catalog, Claims: q.claims, Engine: q.engine, Counted: q.watcher.Inventory, GrantPolicies: grants,
		Previewer: &preview.Previewer{
			Evaluator: q.evaluator, Kinds: c.kinds, Live: c.dynamic, Inventory: q.watcher.Inventory, Ledgers: q.ledgers,
			Schemas: preview.CacheSchemas(&resolver.ClientDiscoveryResolver{Discovery: o.client.Discovery()}),
		},
		Advice: &caution.Adviser{
			Mapper: c.manager.GetRESTMapper(), Permission: c.permission, Users: c.users, Objects: c.objects, Ledgers: q.ledgers, Registrations: q.catalog,
			Clock: &o.clock,
		},
		Permissions: c.users, QuotaSpecs: q.specs, MemberNamespaces: q.members, Namespaces: c.namespaces,
		Requests: quotarequest.Stored{Cached: c.client, Live: c.live}, ConsumerThresholds: o.options.UsageMetrics.ConsumerThresholds, Clock: &o.clock,
	}
	if q.journal != nil {
		webhooks.Deletions = o.deletions
	}
	return webhooks
}

// newReviewer returns the webhook for QuotaReviews.
func (o *Operator) newReviewer(c *cluster, q *quota, loaded <-chan struct{}) *quotareview.Reviewer {
	return quotareview.New(quotareview.Dependencies{
		Catalog: q.catalog, Evaluator: q.evaluator, Facts: quotareview.Live{Store: q.ledgers, Objects: c.objects, Claims: q.claims, Inventory: q.watcher.Inventory},
		Kinds: c.kinds, Permissions: c.users, Ready: loaded,
	})
}

// newJournalReader returns the webhook for QuotaHistories.
func (o *Operator) newJournalReader(c *cluster, q *quota) *quotahistory.Reader {
	deps := quotahistory.Dependencies{Journal: q.history, Consumers: q.catalog, Permissions: c.users, Log: o.options.Log.WithName("journal")}
	if q.journal != nil {
		deps.Backlog = q.journal
	}
	return quotahistory.New(deps)
}

// newUsageAnswerer returns the webhook for QuotaUsages.
func (o *Operator) newUsageAnswerer(c *cluster, q *quota, loaded <-chan struct{}) *quotausage.Answerer {
	return quotausage.New(quotausage.Dependencies{
		Inventory: q.watcher.Inventory, Kinds: q.watcher, Consumers: q.catalog, Permissions: c.users, Ready: loaded,
	})
}

// handlers answer the API server and other replicas.
type handlers struct {
	enforcer       *enforce.Handler
	resourceQuotas *resourcequota.Handler
	validation     *validate.Webhooks
	reviewer       *quotareview.Reviewer
	histories      *quotahistory.Reader
	usages         *quotausage.Answerer

	authenticator *access.Authenticator
	ends          *audited.Reporter
	peers         *routing.Peers
}

// route adds each handler at its path.
func (h handlers) route(mux *http.ServeMux) {
	mux.Handle(webhookconfig.EnforcePath+"/{version}", h.enforcer)
	mux.Handle(webhookconfig.AdvisePath+"/{version}", h.enforcer.Advise())
	mux.Handle(webhookconfig.BreakGlassPath, h.enforcer.BreakGlass())
	mux.Handle(webhookconfig.QuotaPath+"/{version}", h.resourceQuotas)
	mux.Handle(webhookconfig.ProbePath, webhookconfig.Probe())

	mux.Handle(validate.ValidationPath, h.validation.Validation())
	mux.Handle(validate.MutationPath, h.validation.Mutation())
	mux.Handle(validate.StampPath, h.validation.Stamp())
	mux.Handle(validate.GrantStampPath, h.validation.StampGrant())
	mux.Handle(validate.ConsumerTypePath, h.validation.ConsumerType())
	mux.Handle(validate.QuotaReviewPath, h.reviewer.Handler())
	mux.Handle(validate.QuotaHistoryPath, h.histories.Handler())
	mux.Handle(validate.QuotaUsagePath, h.usages.Handler())

	mux.Handle(h.authenticator.ExposedHandler())
	mux.Handle(audited.WebhookPath, h.ends.WebhookHandler())
	mux.Handle(audited.EndPath, h.ends.EndHandler())
	mux.Handle(routing.AlivePath, h.peers.Alive())
}
