package operator

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/departed"
	"github.com/bursar/bursar/internal/controller/escrow"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/controller/view"
	"github.com/bursar/bursar/internal/routing"
	"github.com/bursar/bursar/internal/usage"
)

// controllers are the controllers of every replica.
type controllers struct {
	lifecycle *lifecycle.Controller
	escrow    *escrow.Controller
	claim     *claim.Controller
}

func (o *Operator) newControllers(c *cluster, q *quota, peers *routing.Peers) *controllers {
	log := o.options.Log
	objects := &lifecycle.Controller{
		Store: q.ledgers, Engine: q.engine, Objects: c.objects, Claims: q.claims, Replicas: peers, Log: log.WithName("lifecycle"),
	}
	objects.Start()
	reserved := &escrow.Controller{Store: q.ledgers, Observed: q.watcher, Log: log.WithName("escrow")}
	decider := &claim.Controller{
		Store: q.ledgers, Engine: q.engine, Claims: q.claims, Client: q.client, Catalog: q.catalog, Replicas: peers, Log: log.WithName("claim"),
	}
	decider.Start()
	c.objects.OnVanish(decider.ObjectVanished)
	c.objects.Expect(func(kind schema.GroupKind) bool { return len(q.catalog.PoliciesOf(kind)) > 0 })
	return &controllers{lifecycle: objects, escrow: reserved, claim: decider}
}

// newAdoption returns the controller that tells how existing objects count.
func (o *Operator) newAdoption(c *cluster, q *quota) *adoption.Controller {
	return &adoption.Controller{
		Client: c.client, Catalog: q.catalog, Counts: q.watcher, Clock: &o.clock, Events: c.events, Log: o.options.Log.WithName("adoption"),
	}
}

// newViews returns the controller of the claims that show what objects demand.
func (o *Operator) newViews(c *cluster, q *quota) *view.Controller {
	return &view.Controller{
		Inventory: q.watcher.Inventory, Catalog: q.catalog, Evaluator: q.evaluator, Views: claimcache.NewViews(), Client: q.client, Kinds: c.kinds,
		Live: c.dynamic, Secrets: q.watcher.Secrets, SystemNamespace: o.options.SystemNamespace, Events: c.events,
		Log: o.options.Log.WithName("view"),
	}
}

// newDeparted returns the controller that removes the remains of departed consumers.
func (o *Operator) newDeparted(c *cluster, q *quota, published departed.Consumers) *departed.Controller {
	return &departed.Controller{
		Client: c.client, Live: c.live, Consumers: published, Claims: q.claims,
		Objects:  &departed.Finder{Metadata: o.metadata, Kinds: c.kinds, Permission: c.permission},
		Interval: o.options.DepartedInterval.Duration, Log: o.options.Log.WithName("departed"),
	}
}

// newGrantPolicies returns the controller of GrantCreationPolicies.
func (o *Operator) newGrantPolicies(c *cluster, q *quota) *grantpolicy.Controller {
	return &grantpolicy.Controller{
		Client: c.client, Live: c.live, Cache: c.manager.GetCache(), Objects: c.dynamic, Core: o.client, Kinds: c.kinds, Catalog: q.catalog,
		Permission: c.permission, Rules: validate.Rules{}, Events: c.events, SystemNamespace: o.options.SystemNamespace,
		CompareInterval: o.options.ControlPlaneInterval.Duration, Log: o.options.Log.WithName("grantpolicy"),
	}
}

// usageSource returns the cached usage of all consumers.
func (o *Operator) usageSource(c *cluster, q *quota) usage.Cached {
	return usage.Cached{Cache: c.client, Registrations: q.catalog, Settings: o.options.UsageMetrics}
}

// newUsage returns the usage metrics of all consumers.
func (o *Operator) newUsage(c *cluster, q *quota, leading *leading, claims *claim.Controller) *usage.Collector {
	return &usage.Collector{
		Source: o.usageSource(c, q), Leadership: leading, Waiting: claims, Registrations: q.catalog,
		ConsumersMax: *o.options.UsageMetrics.ConsumersMax, Log: o.options.Log.WithName("usage"),
	}
}

// newGrantEnds returns the metric of when grants end.
func (o *Operator) newGrantEnds(c *cluster, leading *leading) *usage.GrantEnds {
	return &usage.GrantEnds{
		Cache: c.client, Leadership: leading, Clock: &o.clock, Max: *o.options.UsageMetrics.ConsumersMax, Log: o.options.Log.WithName("usage"),
	}
}

// newRequests returns the metrics of open requests.
func (o *Operator) newRequests(c *cluster, leading *leading) *usage.Requests {
	return &usage.Requests{Cache: c.client, Leadership: leading, Log: o.options.Log.WithName("usage")}
}
