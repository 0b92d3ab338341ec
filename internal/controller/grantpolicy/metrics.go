package grantpolicy

import "github.com/prometheus/client_golang/prometheus"

// writeResult is the kind of a write.
type writeResult string

const (
	wroteNew    writeResult = "created"
	wroteChange writeResult = "updated"
	wroteDelete writeResult = "deleted"
	wroteNone   writeResult = "failed"
)

// availability is the state of the connection to another control plane.
type availability string

const (
	answers     availability = "answers"
	unreachable availability = "unreachable"
	invalid     availability = "invalid"
	pending     availability = "pending"
)

// metrics count evaluations and writes.
type metrics struct {
	evaluations *prometheus.CounterVec
	writes      *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_grant_policy_evaluations_total",
			Help: "Evaluations of a GrantCreationPolicy for an object by outcome: grant (the policy gives one), none, or failed (the object's grant stays as it is).",
		}, []string{"outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_grant_policy_writes_total",
			Help: "Writes of grants of GrantCreationPolicies by result: created, updated, deleted, or failed (Bursar tries again).",
		}, []string{"result"}),
	}
}

// evaluated counts an outcome; nil is the outcome of a deleted object.
func (m *metrics) evaluated(o *outcome) {
	label := "none"
	switch {
	case o == nil:
	case o.err != nil:
		label = "failed"
	case o.grant != nil:
		label = "grant"
	}
	m.evaluations.WithLabelValues(label).Inc()
}

func (m *metrics) wrote(w writeResult) { m.writes.WithLabelValues(string(w)).Inc() }

// Collectors returns the controller's metrics, for registration.
func (c *Controller) Collectors() []prometheus.Collector {
	collectors := []prometheus.Collector{c.metrics.evaluations, c.metrics.writes}
	for _, s := range []availability{answers, unreachable, invalid, pending} {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_control_planes",
			Help: "Other control planes that Secrets register by state: answers, unreachable, invalid (the kubeconfig cannot be used) " +
				"or pending (not contacted yet, or no policy needs it).",
			ConstLabels: prometheus.Labels{"state": string(s)},
		}, func() float64 { return float64(c.controlPlanesWith(s)) }))
	}
	return collectors
}

// controlPlanesWith counts the other control planes of an availability.
func (c *Controller) controlPlanesWith(s availability) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for ref, p := range c.controlPlanes {
		if !ref.IsLocal() && p.availability() == s {
			count++
		}
	}
	return count
}

func (p *controlPlane) availability() availability {
	isContacted, problem := p.state()
	switch {
	case p.invalid != nil:
		return invalid
	case problem != nil:
		return unreachable
	case !isContacted:
		return pending
	default:
		return answers
	}
}
