package bucket

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// lag remembers since when the views of consumers miss a change. It is safe for concurrent use.
type lag struct {
	mu    sync.Mutex
	since map[quotav1alpha1.ConsumerRef]time.Time
}

// changed records a change of a consumer. An earlier change that nobody has published yet stays.
func (l *lag) changed(consumer quotav1alpha1.ConsumerRef, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, misses := l.since[consumer]; misses && !at.Before(before) {
		return
	}
	if l.since == nil {
		l.since = map[quotav1alpha1.ConsumerRef]time.Time{}
	}
	l.since[consumer] = at
}

// take forgets the changes of a consumer, before a publication reads its ledger, and returns the time of the oldest.
func (l *lag) take(consumer quotav1alpha1.ConsumerRef) (since time.Time, misses bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, misses = l.since[consumer]
	delete(l.since, consumer)
	return since, misses
}

// clear forgets all changes: another replica publishes them.
func (l *lag) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.since)
}

// longest returns the age of the oldest change that no view shows, or 0.
func (l *lag) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest time.Duration
	for _, since := range l.since {
		longest = max(longest, time.Since(since))
	}
	return longest
}

var viewLag = prometheus.NewDesc("bursar_view_lag_seconds",
	"Age of the oldest change of a ledger that the AllowanceBuckets and EffectiveResourceGrants of its consumer do not show yet, 0 if they show all. "+
		"Only the leader has it.", nil, nil)

// Collectors returns the metric of the views.
func (c *Controller) Collectors() []prometheus.Collector { return []prometheus.Collector{collector{c}} }

type collector struct{ *Controller }

// Describe implements [prometheus.Collector].
func (collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- viewLag }

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	if c.leads.Load() {
		metrics <- prometheus.MustNewConstMetric(viewLag, prometheus.GaugeValue, c.lag.longest().Seconds())
	}
}
