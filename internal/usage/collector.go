package usage

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// listTimeout bounds the list of buckets for one scrape. It reads from a cache.
const listTimeout = 5 * time.Second

// steps are the utilization ratios by which consumers are counted.
var steps = []float64{0.5, 0.7, 0.8, 0.9, 0.95, 1}

// Leadership reports whether this replica leads.
type Leadership interface{ Leads() bool }

// Waiting knows the claims waiting for quota.
type Waiting interface {
	// Waiting returns, by consumer, the missing amounts of each claim waiting for quota.
	Waiting() map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest
}

// Collector exports consumers' utilization to Prometheus. It reads at each scrape, so the series of deleted consumers
// disappear.
type Collector struct {
	Source Source
	// Leadership restricts the metrics of consumers to the leader.
	Leadership Leadership
	Waiting    Waiting
	// Registrations has the units.
	Registrations *catalog.Catalog
	// ConsumersMax is how many pairs of a consumer and a resource type have series of their own: the most utilized
	// ones. 0: none, only resource types have series.
	ConsumersMax int
	Log          logr.Logger
}

// Collectors returns itself, for registration.
func (c *Collector) Collectors() []prometheus.Collector { return []prometheus.Collector{c} }

var (
	ofConsumer = []string{"consumer_group", "consumer_kind", "consumer_namespace", "consumer_name", "resource_type"}
	ofType     = []string{"resource_type"}
	ofUnit     = slices.Concat(ofConsumer, []string{"unit"})

	used          = prometheus.NewDesc("quota_used", "Usage of a resource type by a consumer, in base units.", ofConsumer, nil)
	limit         = prometheus.NewDesc("quota_limit", "Limit of a consumer for a resource type, in base units.", ofConsumer, nil)
	held          = prometheus.NewDesc("quota_held", "Amount that overdue requests hold: Bursar admitted them seconds ago, and does not see their effect. In base units, and not in quota_used.", ofConsumer, nil)
	ratio         = prometheus.NewDesc("quota_utilization_ratio", "Usage of a consumer, as a part of its limit; +Inf for usage with a limit of 0.", ofConsumer, nil)
	overLimit     = prometheus.NewDesc("quota_over_limit", "Usage of a consumer beyond its limit, in base units.", ofConsumer, nil)
	threshold     = prometheus.NewDesc("quota_alert_threshold_ratio", "Part of its limit from which a consumer is near it.", ofConsumer, nil)
	waiting       = prometheus.NewDesc("quota_waiting_claims", "Claims of a consumer that wait because of this resource type.", ofConsumer, nil)
	usedInUnits   = prometheus.NewDesc("quota_used_in_display_units", "As quota_used, in the unit of the label.", ofUnit, nil)
	limitInUnits  = prometheus.NewDesc("quota_limit_in_display_units", "As quota_limit, in the unit of the label.", ofUnit, nil)
	typeUsed      = prometheus.NewDesc("quota_resource_type_used", "Usage of a resource type by all consumers together, in base units.", ofType, nil)
	typeLimit     = prometheus.NewDesc("quota_resource_type_limit", "Limit of all consumers together for a resource type, in base units.", ofType, nil)
	typeWaiting   = prometheus.NewDesc("quota_resource_type_waiting_claims", "Claims that wait because of a resource type.", ofType, nil)
	typeConsumers = prometheus.NewDesc("quota_resource_type_utilization_ratio", "Consumers by their usage, as a part of their limit.", ofType, nil)
	omitted       = prometheus.NewDesc("quota_omitted_consumers", "Consumers of a resource type without series of their own, because there are too many.", ofType, nil)
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		used, limit, held, ratio, threshold, overLimit, waiting, usedInUnits, limitInUnits, typeUsed, typeLimit, typeWaiting, typeConsumers, omitted,
	} {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector] from the current buckets.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var buckets []quotav1alpha1.AllowanceBucket
	var err error
	if c.Leadership.Leads() {
		buckets, err = c.Source.Buckets(ctx)
	}
	var thresholds *Thresholds
	if err == nil && len(buckets) > 0 && c.ConsumersMax > 0 {
		thresholds, err = c.Source.Thresholds(ctx)
	}
	if err != nil {
		// An invalid metric would fail the scrape of all collectors.
		c.Log.V(1).Info("cannot read the usage of quota", "err", err.Error())
		return
	}
	all := usagesOf(buckets)
	claims := countShort(c.Waiting.Waiting(), all)
	types := map[string]*total{}
	for i, u := range all {
		t := types[u.ResourceType]
		if t == nil {
			t = &total{byStep: map[float64]uint64{}}
			for _, step := range steps {
				t.byStep[step] = 0 // zero consumers are a count, too
			}
			types[u.ResourceType] = t
		}
		n := claims[u.Consumer][u.ResourceType]
		t.add(u, n)
		if i < c.ConsumersMax {
			c.collect(metrics, u, n, thresholds.Percent(u.Consumer, u.ResourceType))
		} else {
			t.omitted++
		}
	}
	for _, resourceType := range slices.Sorted(maps.Keys(types)) {
		types[resourceType].collect(metrics, resourceType)
	}
}

// collect emits the series of one consumer.
func (c *Collector) collect(metrics chan<- prometheus.Metric, u Usage, claims, thresholdPercent int) {
	labels := []string{u.Consumer.APIGroup, u.Consumer.Kind, u.Consumer.Namespace, u.Consumer.Name, u.ResourceType}
	metrics <- gauge(used, float64(u.Used), labels...)
	metrics <- gauge(limit, float64(u.Limit), labels...)
	metrics <- gauge(held, float64(u.Held), labels...)
	metrics <- gauge(ratio, u.Ratio(), labels...)
	metrics <- gauge(threshold, float64(thresholdPercent)/100, labels...)
	metrics <- gauge(overLimit, float64(u.OverLimit()), labels...)
	metrics <- gauge(waiting, float64(claims), labels...)
	if r := c.Registrations.Registration(u.ResourceType); r != nil {
		labels = append(labels, r.DisplayUnit)
		metrics <- gauge(usedInUnits, float64(u.Used)/float64(r.Factor), labels...)
		metrics <- gauge(limitInUnits, float64(u.Limit)/float64(r.Factor), labels...)
	}
}

// total is the sum of a resource type over all consumers.
type total struct {
	used, limit, ratios float64
	claims, omitted     int
	consumers           uint64
	byStep              map[float64]uint64
}

func (t *total) add(u Usage, claims int) {
	t.used += float64(u.Used)
	t.limit += float64(u.Limit)
	t.claims += claims
	t.consumers++
	part := u.Ratio()
	for _, step := range steps {
		if part <= step {
			t.byStep[step]++
		}
	}
	if !math.IsInf(part, 1) {
		t.ratios += part
	}
}

func (t *total) collect(metrics chan<- prometheus.Metric, resourceType string) {
	metrics <- gauge(typeUsed, t.used, resourceType)
	metrics <- gauge(typeLimit, t.limit, resourceType)
	metrics <- gauge(typeWaiting, float64(t.claims), resourceType)
	metrics <- gauge(omitted, float64(t.omitted), resourceType)
	metrics <- prometheus.MustNewConstHistogram(typeConsumers, t.consumers, t.ratios, t.byStep, resourceType)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
