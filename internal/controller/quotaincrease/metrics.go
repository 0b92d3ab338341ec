package quotaincrease

import "github.com/prometheus/client_golang/prometheus"

// The states of a namespace with a definition.
const (
	stateEffective    = "in_force"
	stateHeldBack     = "held_back"
	stateNotEffective = "not_in_force"
)

var namespacesByState = prometheus.NewDesc("bursar_quotaincrease_namespaces",
	"Namespaces of a definition of a QuotaServiceConfig, by state: in_force, held_back (a ResourceQuotaAllocation does not have enough room for all of it) "+
		"or not_in_force (the conditions of the QuotaServiceConfig say why).", []string{"config", "definition", "state"}, nil)

// Collectors returns the metrics of namespaces, for registration.
func (r *Reconciler) Collectors() []prometheus.Collector { return []prometheus.Collector{&r.outcomes} }

// Describe implements [prometheus.Collector].
func (o *outcomes) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- namespacesByState }

// Collect implements [prometheus.Collector].
func (o *outcomes) Collect(metrics chan<- prometheus.Metric) {
	counts := map[holder]map[string]int{}
	for _, one := range o.all() {
		if one.config == "" {
			continue
		}
		of := holder{one.config, one.definition}
		if counts[of] == nil {
			counts[of] = map[string]int{stateEffective: 0, stateHeldBack: 0, stateNotEffective: 0}
		}
		switch {
		case one.isHeldBack:
			counts[of][stateHeldBack]++
		case one.reason != "":
			counts[of][stateNotEffective]++
		default:
			counts[of][stateEffective]++
		}
	}
	for of, states := range counts {
		for state, count := range states {
			metrics <- prometheus.MustNewConstMetric(namespacesByState, prometheus.GaugeValue, float64(count), of.config, of.definition, state)
		}
	}
}
