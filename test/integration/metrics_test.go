package integration

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

// gauged returns what a gauge says of the world's consumer, which is nothing while there is none.
func (w *world) gauged(name string) (float64, error) {
	families, err := metrics.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "consumer_name" && label.GetValue() == w.name {
					return metric.GetGauge().GetValue(), nil
				}
			}
		}
	}
	return 0, fmt.Errorf("there is no %s of %s", name, w.name)
}

// TestQuotaMetrics reads what Prometheus is told of a consumer's quota, and checks the names of all metrics.
func TestQuotaMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	w.mustCreate(w.claim("granted", 2))
	waiting := w.claim("waiting", 4)
	w.mustCreate(waiting)
	want := func(used, limit, ratio, waiting float64) {
		t.Helper()
		w.eventually(soon, func() error {
			for name, want := range map[string]float64{
				"quota_used": used, "quota_limit": limit, "quota_utilization_ratio": ratio, "quota_waiting_claims": waiting, "quota_over_limit": 0,
				"quota_used_in_display_units": used, "quota_limit_in_display_units": limit,
			} {
				if got, err := w.gauged(name); err != nil || got != want {
					return fmt.Errorf("%s is %v, want %v: %w", name, got, want, err)
				}
			}
			return nil
		})
	}
	want(2, 5, 0.4, 1)
	w.grant("more", 1)
	want(6, 6, 1, 0)
	problems, err := testutil.GatherAndLint(metrics)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
