package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// TestQuotaSettings proves that a standalone server heeds the settings of an operator on a cluster. Its etcd stores
// objects larger than the default, and its metrics have the configured threshold.
func TestQuotaSettings(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	api := start(t, standalone.Options{Metrics: metrics, Quota: config.Quota{
		SystemNamespace: ledgersNamespace, MaxObjectBytes: 1_900_000, UsageMetrics: config.Metrics{ConsumersMax: new(1), AlertThresholdPercent: 50},
	}}).Admin
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	policy := teamPolicy()
	create(t, api, platform.Definition(platform.Group, "Team", "teams"), teamRegistration(), teamGrant(), policy)
	// Bursar denies large objects only if a policy charges them.
	eventually(t, func() error { return platform.IsReady(t.Context(), api, policy) })
	eventually(t, func() error {
		ratio, err := gaugeOf(metrics, "quota_alert_threshold_ratio")
		if err == nil && ratio != 0.5 {
			err = fmt.Errorf("the threshold is %g, want 0.5", ratio)
		}
		return err
	})
	large := func(size int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": platform.Group + "/v1", "kind": "Team", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"text": strings.Repeat("a", size)},
		}}
	}
	if err := api.Create(t.Context(), large(1_950_000)); err == nil || !strings.Contains(err.Error(), "1900000") {
		t.Errorf("an object larger than the setting: got %v, want it to be denied with the largest size", err)
	}
	eventually(t, func() error { return api.Create(t.Context(), large(1_800_000)) })
}

// gaugeOf is the value of the only series of a metric.
func gaugeOf(metrics prometheus.Gatherer, name string) (float64, error) {
	families, err := metrics.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() == name && len(family.GetMetric()) == 1 {
			return family.GetMetric()[0].GetGauge().GetValue(), nil
		}
	}
	return 0, fmt.Errorf("there is no single series of %s", name)
}
