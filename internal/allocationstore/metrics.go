package allocationstore

import (
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// metrics counts what commits come to.
type metrics struct {
	commits *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{commits: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_allocation_commits_total",
		Help: "Writes of the books of ResourceQuotaAllocations by outcome: committed, conflict (another process wrote first) or failed.",
	}, []string{"outcome"})}
}

// observeCommit counts one write.
func (m *metrics) observeCommit(err error) {
	outcome := "committed"
	switch {
	case apierrors.IsConflict(err):
		outcome = "conflict"
	case err != nil:
		outcome = "failed"
	}
	m.commits.WithLabelValues(outcome).Inc()
}

// Collectors returns the store's metrics, for registration.
func (s *Store) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.commits}
}
