package ledgerstore

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// metrics counts commits by outcome, and measures their duration and number of changes.
type metrics struct {
	commits  *prometheus.CounterVec
	duration prometheus.Histogram
	batch    prometheus.Histogram
	escrowed prometheus.Counter
	outdated prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_ledger_commits_total",
			Help: "Writes of consumer ledgers by outcome: committed, conflict (another process wrote first) or failed.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "bursar_ledger_commit_duration_seconds",
			Help:    "Time taken to write a consumer ledger, with any outcome.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "bursar_ledger_commit_changes",
			Help:    "Reservations, releases and other changes in one write of a consumer ledger.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500},
		}),
	}
	m.escrowed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bursar_ledger_escrowed_total",
		Help: "Number of creates admitted from a slice (quota reserved ahead of demand), without a write of " +
			"the consumer ledger before the answer.",
	})
	m.outdated = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bursar_ledgers_outdated",
		Help: "Consumer ledgers that for more than 30 seconds have shown another use than the objects and claims that this replica sees.",
	})
	for _, outcome := range []string{"committed", "conflict", "failed"} {
		m.commits.WithLabelValues(outcome) // to make the first increase visible
	}
	return m
}

// observeBatch records the number of changes of one write.
func (m *metrics) observeBatch(effects []groupcommit.Effect) {
	changes := 0
	for _, e := range effects {
		if e == groupcommit.Changed {
			changes++
		}
	}
	m.batch.Observe(float64(changes))
}

// observeCommit records one write.
func (m *metrics) observeCommit(err error, took time.Duration) {
	m.duration.Observe(took.Seconds())
	outcome := "committed"
	switch {
	case errors.Is(err, ErrConflict):
		outcome = "conflict"
	case err != nil:
		outcome = "failed"
	}
	m.commits.WithLabelValues(outcome).Inc()
}

// Collectors returns the store's metrics, for registration.
func (s *Store) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.commits, s.metrics.duration, s.metrics.batch, s.metrics.escrowed, s.metrics.outdated, (*sizes)(s)}
}

const (
	// sizesMax is the largest number of ledgers with a series of their own.
	sizesMax = 10
	// sizeMin is the smallest size of a ledger with a series of its own.
	sizeMin = ledger.BytesMax / 4
)

var (
	sizeOfLargest = prometheus.NewDesc("bursar_ledger_bytes_max",
		"Size of the largest consumer ledger in the memory of this replica. A ledger may take 524288 bytes.", nil, nil)
	ledgersHeld = prometheus.NewDesc("bursar_ledgers_in_memory",
		"Consumer ledgers in the memory of this replica. Unused ones leave it after some minutes.", nil, nil)
	sizeOfLedger = prometheus.NewDesc("bursar_ledger_bytes",
		"Size of a consumer ledger of at least a quarter of 524288 bytes, for the ten largest.",
		[]string{"consumer_group", "consumer_kind", "consumer_namespace", "consumer_name"}, nil)
)

// sizes collects the sizes of ledgers.
type sizes Store

// Describe implements [prometheus.Collector].
func (s *sizes) Describe(descs chan<- *prometheus.Desc) {
	descs <- ledgersHeld
	descs <- sizeOfLargest
	descs <- sizeOfLedger
}

// Collect implements [prometheus.Collector].
func (s *sizes) Collect(metrics chan<- prometheus.Metric) {
	var largest int64
	var large []*committer
	s.mu.RLock()
	for _, c := range s.byRef {
		bytes := c.bytes.Load()
		largest = max(largest, bytes)
		if bytes >= sizeMin {
			large = append(large, c)
		}
	}
	held := len(s.byRef)
	s.mu.RUnlock()
	metrics <- prometheus.MustNewConstMetric(ledgersHeld, prometheus.GaugeValue, float64(held))
	metrics <- prometheus.MustNewConstMetric(sizeOfLargest, prometheus.GaugeValue, float64(largest))
	slices.SortFunc(large, func(a, b *committer) int { return cmp.Compare(b.bytes.Load(), a.bytes.Load()) })
	for _, c := range large[:min(len(large), sizesMax)] {
		metrics <- prometheus.MustNewConstMetric(sizeOfLedger, prometheus.GaugeValue, float64(c.bytes.Load()),
			c.consumer.APIGroup, c.consumer.Kind, c.consumer.Namespace, c.consumer.Name)
	}
}
