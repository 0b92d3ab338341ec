package allocationstore

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts commits by outcome.
type metrics struct {
	commits *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{commits: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_allocation_commits_total",
		Help: "Writes of ResourceQuotaAllocations by part (ledger, for changes of ResourceQuotas, or status) and outcome: committed, conflict (another process wrote first) or failed.",
	}, []string{"part", "outcome"})}
}

// written records one write.
func (m *metrics) written(part string, err error) {
	outcome := "committed"
	switch {
	case isConflict(err):
		outcome = "conflict"
	case err != nil:
		outcome = "failed"
	}
	m.commits.WithLabelValues(part, outcome).Inc()
}

// Collectors returns the store's metrics, for registration.
func (s *Store) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.commits}
}
