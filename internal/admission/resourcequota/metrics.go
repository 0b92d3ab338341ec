package resourcequota

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// metrics counts reviews and measures their duration.
type metrics struct{ reviews *prometheus.HistogramVec }

func newMetrics() metrics {
	return metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bursar_resourcequota_review_duration_seconds",
		Help: "Time taken to review a create, update or deletion of a ResourceQuota, by outcome: allowed, denied (a ResourceQuotaAllocation " +
			"does not have enough room, or the request cannot be read) or undecided (the client should retry).",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
	}, []string{"outcome"})}
}

// reviewed counts one answer.
func (m *metrics) reviewed(answer *admissionv1.AdmissionResponse, took time.Duration) {
	outcome := "undecided"
	switch {
	case answer.Allowed:
		outcome = "allowed"
	case answer.Result.Code == http.StatusForbidden, answer.Result.Code == http.StatusBadRequest:
		outcome = "denied"
	}
	m.reviews.WithLabelValues(outcome).Observe(took.Seconds())
}

// Collectors returns the handler's metrics, for registration.
func (h *Handler) Collectors() []prometheus.Collector {
	return []prometheus.Collector{h.metrics.reviews}
}
