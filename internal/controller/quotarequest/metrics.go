package quotarequest

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The values of the label by.
const (
	byPolicy = "policy"
	byPeople = "people"
	// byNone goes with requests ended without a decision.
	byNone = "none"
)

// decisionSecondsBuckets are from a second, for a policy, to 30 days, for people.
var decisionSecondsBuckets = []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 2 * 86400, 3 * 86400, 7 * 86400, 14 * 86400, 30 * 86400}

// Metrics counts the requests brought to an end by this process. Make it by [NewMetrics].
type Metrics struct {
	decisions *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

// NewMetrics returns metrics without an observation.
func NewMetrics() *Metrics {
	return &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quota_request_decisions_total",
			Help: "Ended QuotaRequests by result, and by decider: policy, people, or none for a withdrawn or expired one.",
		}, []string{"result", "by"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "quota_request_decision_seconds",
			Help:    "Time from the creation of QuotaRequests to their end, by decider.",
			Buckets: decisionSecondsBuckets,
		}, []string{"by"}),
	}
}

// Collectors returns the metrics, for registration.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.decisions, m.seconds}
}

// ended counts a newly final request.
func (m *Metrics) ended(request *quotav1alpha1.QuotaRequest, now time.Time) {
	state := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved)
	by := decider(&request.Status, state.Reason)
	m.decisions.WithLabelValues(state.Reason, by).Inc()
	m.seconds.WithLabelValues(by).Observe(max(now.Sub(request.CreationTimestamp.Time), 0).Seconds())
}

// decider returns the kind of decider, as a value of the label by.
func decider(status *quotav1alpha1.QuotaRequestStatus, result string) string {
	isPolicy := func(d quotav1alpha1.RequestDecision) bool { return d.DecidedBy == nil }
	switch {
	case result == quotav1alpha1.ReasonWithdrawn || result == quotav1alpha1.ReasonExpired:
		return byNone
	case slices.ContainsFunc(status.Decisions, isPolicy):
		return byPolicy
	default:
		return byPeople
	}
}
