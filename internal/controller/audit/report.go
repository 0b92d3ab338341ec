package audit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// result is the result of one ledger's audit.
type result string

const (
	clean   result = "clean"
	busy    result = "busy"
	drifted result = "drifted"
	failed  result = "failed"
)

type metrics struct {
	audits *prometheus.CounterVec
	drift  *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		audits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_ledger_audits_total",
			Help: "Audits of consumer ledgers by result: clean, busy (it changed too fast to be compared), drifted or failed.",
		}, []string{"result"}),
		drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_ledger_drift_total",
			Help: "Balances of consumer ledgers that differed from the granted claims, by the direction of the correction (charge, release) and whether it was made.",
		}, []string{"direction", "repaired"}),
	}
	// Prometheus sees no increase in a counter if it appears with its first count.
	for _, r := range []result{clean, busy, drifted, failed} {
		m.audits.WithLabelValues(string(r))
	}
	for _, direction := range []string{charge, release} {
		for _, repaired := range []bool{true, false} {
			m.drift.WithLabelValues(direction, fmt.Sprint(repaired))
		}
	}
	return m
}

// The directions of a correction.
const (
	charge  = "charge"
	release = "release"
)

func (m *metrics) audited(r result) { m.audits.WithLabelValues(string(r)).Inc() }

// Collectors returns the auditor's metrics, for registration.
func (a *Auditor) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.metrics.audits, a.metrics.drift}
}

// report reports drift in one ledger.
func (a *Auditor) report(l Ledger, outcomes []outcome) {
	repaired := 0
	for _, o := range outcomes {
		direction := release
		if o.LacksUsage() {
			direction = charge
		}
		if o.repaired {
			repaired++
		}
		a.metrics.drift.WithLabelValues(direction, fmt.Sprint(o.repaired)).Inc()
		a.Log.Info("a ledger has drifted from the granted claims",
			"consumer", l.Consumer.Kind+"/"+l.Consumer.Name, "difference", o.String(), "repaired", o.repaired)
	}
	if a.Events == nil {
		return
	}
	a.Events.Eventf(object(l), nil, corev1.EventTypeWarning, quotav1alpha1.EventLedgerDrift, "Audit",
		"The ledger differs from the granted claims; balances: %d, corrected: %d; the first is %s",
		len(outcomes), repaired, outcomes[0])
}

// object returns the ledger for event references.
func object(l Ledger) *quotav1alpha1.ConsumerLedger {
	return &quotav1alpha1.ConsumerLedger{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ConsumerLedger"},
		ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(l.Consumer), UID: l.UID},
	}
}
