package integration

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics takes what the server counts.
var metrics = prometheus.NewRegistry()

// counted returns what a counter of the server says, which is 0 until it has counted something.
func counted(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	mustNot(t, err)
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			matching := 0
			for _, label := range metric.GetLabel() {
				if labels[label.GetName()] == label.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
