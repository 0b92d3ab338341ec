package enforce

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// metrics counts reviews and measures their duration.
type metrics struct {
	reviews     *prometheus.HistogramVec
	decisions   *prometheus.CounterVec
	notEnforced *prometheus.CounterVec
	brokenGlass prometheus.Counter
}

func newMetrics() metrics {
	notEnforced := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_admission_not_enforced_total",
		Help: "Number of requests that a policy would have denied, and admitted because its mode is Warn or Audit.",
	}, []string{"policy", "mode"})
	brokenGlass := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bursar_admission_break_glass_total",
		Help: "Number of requests that passed without enforcement because of the user's group.",
	})
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_admission_decisions_total",
		Help: "Number of creates and updates with a demand for quota by a policy, by outcome: as in " +
			"bursar_admission_review_duration_seconds, or failed (the policy could not be applied to the object). " +
			"One with demands by several policies counts for each.",
	}, []string{"policy", "outcome"})
	return metrics{decisions: decisions, notEnforced: notEnforced, brokenGlass: brokenGlass, reviews: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bursar_admission_review_duration_seconds",
		Help: "Time taken to review a create or update of a protected object, by outcome: allowed, denied " +
			"(quota exceeded or policy not applicable), exists (the name is taken) or undecided (the client should retry).",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
	}, []string{"outcome"})}
}

// reviewed counts one answer.
func (m *metrics) reviewed(answer *admissionv1.AdmissionResponse, took time.Duration) {
	m.reviews.WithLabelValues(outcomeOf(answer)).Observe(took.Seconds())
}

// decided counts the outcome of a request with a demand for quota by a policy.
func (m *metrics) decided(policy *catalog.Policy, answer *admissionv1.AdmissionResponse) {
	m.decisions.WithLabelValues(policy.Name, outcomeOf(answer)).Inc()
}

// outcomeFailed counts requests with a failure of a policy for their object.
const outcomeFailed = "failed"

// InitPolicyMetrics creates the series of a policy before its first failure.
func (h *Handler) InitPolicyMetrics(name string) {
	h.metrics.decisions.WithLabelValues(name, outcomeFailed)
}

// failed records the failure of a policy for the object of a request. Transient errors do not count.
func (h *Handler) failed(request *admissionv1.AdmissionRequest, p *catalog.Policy, object evaluator.Object, err error, isDenied bool) {
	if err == nil || evaluator.IsTransient(err) || review.IsDryRun(request) {
		return
	}
	h.metrics.decisions.WithLabelValues(p.Name, outcomeFailed).Inc()
	if h.Evaluations != nil {
		h.Evaluations.Failed(p, object, err, isDenied)
	}
}

// succeeded records the success of a policy with a demand for the object of a request.
func (h *Handler) succeeded(p *catalog.Policy) {
	if h.Evaluations != nil {
		h.Evaluations.Succeeded(p)
	}
}

func outcomeOf(answer *admissionv1.AdmissionResponse) string {
	switch {
	case answer.Allowed:
		return "allowed"
	case answer.Result.Code == http.StatusConflict:
		return "exists"
	case answer.Result.Code == http.StatusForbidden, answer.Result.Code == http.StatusBadRequest, answer.Result.Code == http.StatusRequestEntityTooLarge:
		return "denied"
	default:
		return "undecided"
	}
}

// Collectors returns the handler's metrics, for registration.
func (h *Handler) Collectors() []prometheus.Collector {
	return []prometheus.Collector{h.metrics.reviews, h.metrics.decisions, h.metrics.notEnforced, h.metrics.brokenGlass}
}
