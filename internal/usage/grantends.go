package usage

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// GrantEnds exports to Prometheus when grants end. It reads at each scrape.
type GrantEnds struct {
	// Cache has the grants.
	Cache client.Reader
	// Leadership restricts the metric to the leader.
	Leadership Leadership
	// Clock is the clock of the API server.
	Clock Clock
	// Max is how many grants have a series: those that end first.
	Max int
	Log logr.Logger
}

// Clock has the time of the API server.
type Clock interface {
	Now() time.Time
}

var grantEnd = prometheus.NewDesc("quota_grant_end_timestamp_seconds", "When the next allowance of a grant ends, as a Unix time.",
	[]string{"grant_namespace", "grant", "consumer_group", "consumer_kind", "consumer_namespace", "consumer_name"}, nil)

// Collectors returns itself, for registration.
func (c *GrantEnds) Collectors() []prometheus.Collector { return []prometheus.Collector{c} }

// Describe implements [prometheus.Collector].
func (c *GrantEnds) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- grantEnd }

// Collect implements [prometheus.Collector].
func (c *GrantEnds) Collect(metrics chan<- prometheus.Metric) {
	if !c.Leadership.Leads() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var list quotav1alpha1.ResourceGrantList
	if err := c.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		// An invalid metric would fail the scrape of all collectors.
		c.Log.V(1).Info("cannot read the ends of grants", "err", err.Error())
		return
	}
	now := c.Clock.Now()
	type ending struct {
		grant *quotav1alpha1.ResourceGrant
		at    time.Time
	}
	var all []ending
	for i := range list.Items {
		grant := &list.Items[i]
		isActive := apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) && grant.DeletionTimestamp == nil
		if at := grant.Spec.NextEnd(now); isActive && !at.IsZero() {
			all = append(all, ending{grant, at})
		}
	}
	slices.SortStableFunc(all, func(a, b ending) int { return a.at.Compare(b.at) })
	for _, e := range all[:min(len(all), c.Max)] {
		consumer := e.grant.Spec.ConsumerRef
		metrics <- gauge(grantEnd, float64(e.at.Unix()), e.grant.Namespace, e.grant.Name, consumer.APIGroup, consumer.Kind, consumer.Namespace, consumer.Name)
	}
}
