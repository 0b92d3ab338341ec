package ledgerstore

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what commits come to, how long they take and how much each of them does.
type metrics struct {
	commits  *prometheus.CounterVec
	duration prometheus.Histogram
	batch    prometheus.Histogram
}

func newMetrics() *metrics {
	return &metrics{
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_ledger_commits_total",
			Help: "Writes of consumer ledgers by outcome: committed, conflict (another process wrote first) or failed.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "bursar_ledger_commit_duration_seconds",
			Help:    "Time taken to write a consumer ledger, whatever came of it.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "bursar_ledger_commit_changes",
			Help:    "Reservations, releases and other changes that one write of a consumer ledger carried.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500},
		}),
	}
}

// observeBatch counts what one write carried.
func (m *metrics) observeBatch(effects []effect) {
	changes := 0
	for _, e := range effects {
		if e == changed {
			changes++
		}
	}
	m.batch.Observe(float64(changes))
}

// observeCommit counts one write.
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
	return []prometheus.Collector{s.metrics.commits, s.metrics.duration, s.metrics.batch}
}
