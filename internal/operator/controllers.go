package operator

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/adoption"
	"github.com/bursar/bursar/internal/controller/allocation"
	"github.com/bursar/bursar/internal/controller/audit"
	"github.com/bursar/bursar/internal/controller/bucket"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/departed"
	"github.com/bursar/bursar/internal/controller/escrow"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/routing"
	"github.com/bursar/bursar/internal/usage"
)

// controllers are the controllers with listeners or metrics. Each is registered for the caches that it follows.
type controllers struct {
	lifecycle *lifecycle.Controller
	adoption  *adoption.Controller
	escrow    *escrow.Controller
	claim     *claim.Controller
	bucket    *bucket.Controller
	auditor   *audit.Auditor
	grants    *grantpolicy.Controller
	// allocation reconciles the caps on ResourceQuotas with the cluster.
	allocation *allocation.Controller
	// leading runs on the leader.
	leading []runner
}

func (o *Operator) newControllers(c *cluster, q *quota, peers *routing.Peers, webhooks *webhookconfig.Controller) *controllers {
	log, system := o.options.Log, o.options.SystemNamespace
	buckets := &bucket.Controller{
		Client: c.client, Cache: c.manager.GetCache(), Ledgers: q.ledgers, Catalog: q.catalog, SystemNamespace: system,
		Namespaces: o.options.Namespaces(), Events: c.events, Log: log.WithName("bucket"),
	}
	buckets.Start()
	q.ledgers.Subscribe(buckets.Changed)
	objects := &lifecycle.Controller{
		Store: q.ledgers, Engine: q.engine, Objects: c.objects, Claims: q.claims, Replicas: peers, Log: log.WithName("lifecycle"),
	}
	objects.Start()
	adopter := &adoption.Controller{
		Client: c.client, Catalog: q.catalog, Kinds: c.kinds, Live: c.dynamic, Objects: c.objects, Claims: q.claims, Store: q.ledgers,
		Engine: q.engine, Namespaces: c.namespaces, Leadership: o.leadership(c), Leases: o.client.CoordinationV1().Leases(system), Reviews: reviews{q.reviewed, peers},
		SystemNamespace: system, Clock: &o.clock, Events: c.events, Log: log.WithName("adoption"),
	}
	adopter.Start()
	reserved := &escrow.Controller{Store: q.ledgers, Adopter: adopter, Log: log.WithName("escrow")}
	decider := &claim.Controller{
		Store: q.ledgers, Engine: q.engine, Claims: q.claims, Client: q.client, Catalog: q.catalog, Replicas: peers, Log: log.WithName("claim"),
	}
	decider.Start()
	caps := &allocation.Controller{
		Catalog: q.catalog, Ledgers: q.allocations, Members: q.members, Client: c.client, Live: c.live, Webhooks: webhooks,
		PendingTime: o.options.RequestTimeout.Duration + allocationstore.PendingMargin, Events: c.events, Log: log.WithName("allocation"),
	}
	caps.Start()
	c.objects.OnVanish(decider.ObjectVanished)
	c.objects.Expect(func(kind schema.GroupKind) bool { return len(q.catalog.PoliciesOf(kind)) > 0 })
	q.claims.OnChange(func(before, after *claimcache.Claim) {
		// A waiting claim gets a bucket, also before the first grant.
		if after != nil && after.State == claimcache.Waiting && (before == nil || before.State != claimcache.Waiting) {
			buckets.Need(after.Consumer(), after.Requests())
		}
	})
	auditor, gone, grants := o.newAuditor(c, q), o.newDeparted(c, q, buckets), o.newGrantPolicies(c, q)
	notifier := &usage.Notifier{Source: o.usageSource(c, q), Registrations: q.catalog, Events: c.events, Log: log.WithName("usage")}
	return &controllers{
		lifecycle: objects, adoption: adopter, escrow: reserved, claim: decider, bucket: buckets, auditor: auditor, grants: grants, allocation: caps,
		leading: []runner{adopter, auditor, gone, grants, caps, notifier},
	}
}

// leadership returns whether this replica leads.
func (o *Operator) leadership(c *cluster) leadership {
	return leadership{elected: c.manager.Elected(), isOnlyReplica: o.options.LeaderElection == nil}
}

// newAuditor returns the auditor of ledgers against claims.
func (o *Operator) newAuditor(c *cluster, q *quota) *audit.Auditor {
	return audit.New(audit.Options{
		Ledgers: q.ledgers, Claims: q.claims, Stored: audit.Live{Reader: c.live}, Events: c.events, Interval: o.options.AuditInterval.Duration,
		Engine: q.engine, Log: o.options.Log.WithName("audit"),
	})
}

// newDeparted returns the controller that removes the remains of departed consumers.
func (o *Operator) newDeparted(c *cluster, q *quota, published departed.Consumers) *departed.Controller {
	return &departed.Controller{
		Client: c.client, Live: c.live, Consumers: published, Claims: q.claims, Stored: audit.Live{Reader: c.live},
		Objects:  &departed.Finder{Metadata: o.metadata, Kinds: c.kinds, Permission: c.permission},
		Interval: o.options.DepartedInterval.Duration, Log: o.options.Log.WithName("departed"),
	}
}

// newGrantPolicies returns the controller of GrantCreationPolicies.
func (o *Operator) newGrantPolicies(c *cluster, q *quota) *grantpolicy.Controller {
	grants := &grantpolicy.Controller{
		Client: c.client, Live: c.live, Cache: c.manager.GetCache(), Objects: c.dynamic, Core: o.client, Kinds: c.kinds, Catalog: q.catalog,
		Permission: c.permission, Rules: validate.Rules{}, Events: c.events, SystemNamespace: o.options.SystemNamespace,
		CompareInterval: o.options.ControlPlaneInterval.Duration, Log: o.options.Log.WithName("grantpolicy"),
	}
	grants.Start()
	return grants
}

// usageSource returns the cached usage of all consumers.
func (o *Operator) usageSource(c *cluster, q *quota) usage.Cached {
	return usage.Cached{Cache: c.client, Registrations: q.catalog, Settings: o.options.UsageMetrics}
}

// newUsage returns the usage metrics of all consumers.
func (o *Operator) newUsage(c *cluster, q *quota, controllers *controllers) *usage.Collector {
	return &usage.Collector{
		Source: o.usageSource(c, q), Leadership: o.leadership(c), Waiting: controllers.claim, Registrations: q.catalog,
		ConsumersMax: *o.options.UsageMetrics.ConsumersMax, Log: o.options.Log.WithName("usage"),
	}
}

// newGrantEnds returns the metric of when grants end.
func (o *Operator) newGrantEnds(c *cluster) *usage.GrantEnds {
	return &usage.GrantEnds{
		Cache: c.client, Leadership: o.leadership(c), Clock: &o.clock, Max: *o.options.UsageMetrics.ConsumersMax, Log: o.options.Log.WithName("usage"),
	}
}

// newRequests returns the metrics of open requests.
func (o *Operator) newRequests(c *cluster) *usage.Requests {
	return &usage.Requests{Cache: c.client, Leadership: o.leadership(c), Log: o.options.Log.WithName("usage")}
}
