package shipper

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics measures appends, and their backlog.
type metrics struct {
	stored   prometheus.Counter
	failures prometheus.Counter
	duration prometheus.Histogram
	lost     prometheus.Counter
	waiting  prometheus.GaugeFunc
	oldest   prometheus.GaugeFunc
	failing  failing
}

func newMetrics(s *Shipper) *metrics {
	return &metrics{
		failing: failing{s},
		stored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_journal_entries_total",
			Help: "Number of entries that the sink of the journal has stored.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_journal_append_failures_total",
			Help: "Number of failed attempts to store entries of the journal. Bursar repeats them until they succeed.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_journal_lost_changes_total",
			Help: "Number of changes of limits and use lost to the journal, because its sink failed for too long.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "bursar_journal_append_duration_seconds",
			Help:    "Time taken by the sink of the journal to store a batch of entries.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_journal_waiting_entries",
			Help: "Number of entries in memory that wait for the sink of the journal.",
		}, func() float64 { return float64(s.count()) }),
		oldest: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_journal_oldest_waiting_seconds",
			Help: "Age of the oldest entry that waits for the sink of the journal, or 0 if none waits.",
		}, func() float64 { return s.oldestAge().Seconds() }),
	}
}

func (m *metrics) observe(began time.Time, entries int, err error) {
	m.duration.Observe(time.Since(began).Seconds())
	if err != nil {
		m.failures.Inc()
		return
	}
	m.stored.Add(float64(entries))
}

// oldestAge returns how long the oldest entry has waited.
func (s *Shipper) oldestAge() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return 0
	}
	return time.Since(s.waiting[0].at)
}

// Waiting returns how many entries wait for the sink, and for how long the oldest has waited.
func (s *Shipper) Waiting() (entries int, oldest time.Duration) { return s.count(), s.oldestAge() }

// Collectors returns the metrics, with those of the sink, for registration.
func (s *Shipper) Collectors() []prometheus.Collector {
	m := s.metrics
	collectors := []prometheus.Collector{m.stored, m.failures, m.lost, m.duration, m.waiting, m.oldest, m.failing}
	if sink, ok := s.sink.(interface{ Collectors() []prometheus.Collector }); ok {
		collectors = append(collectors, sink.Collectors()...)
	}
	return collectors
}

// isFailing describes the metric with the error of the sink. There is one series at most, and only while the sink
// fails, so errors that differ do no harm.
var isFailing = prometheus.NewDesc("bursar_journal_failing", "1, with the error, while the sink of the journal cannot store entries.", []string{"error"}, nil)

// failing is the collector of this metric.
type failing struct{ *Shipper }

// Describe implements [prometheus.Collector].
func (failing) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- isFailing }

// Collect implements [prometheus.Collector].
func (f failing) Collect(metrics chan<- prometheus.Metric) {
	if err := f.Failure(); err != nil {
		metrics <- prometheus.MustNewConstMetric(isFailing, prometheus.GaugeValue, 1, strings.ToValidUTF8(err.Error(), "?"))
	}
}
