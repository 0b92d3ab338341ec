package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// counted returns the value of a counter or gauge of the server, or 0 before its first count.
func counted(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	must(t, err)
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
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// gauged returns the value of a gauge for the world's consumer, or an error without one.
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

// TestQuotaMetrics reads the metrics of a consumer's quota, and checks the names of all metrics.
func TestQuotaMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	granted := w.claim("granted", 2)
	w.mustCreate(granted)
	w.waitCondition(granted, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	waiting := w.claim("waiting", 4)
	w.mustCreate(waiting)
	want := func(used, limit, ratio, waiting float64) {
		t.Helper()
		eventually(w, func() error {
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

// TestPolicyMetrics reads the metrics of a policy's decisions, and of the objects from before the policy.
func TestPolicyMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCreate(w.configMap("before"))
	w.grant("base", 2)
	policy := w.policy(w.name, nil)
	w.wantAdopted(policy, 1, 0)
	w.mustCreate(w.configMap("first"))
	w.wantExceeded(w.configMap("second"))
	w.wantExceeded(w.configMap("second"), client.DryRunAll)
	for outcome, want := range map[string]float64{"allowed": 1, "denied": 1, "undecided": 0} {
		if got := counted(t, "bursar_admission_decisions_total", map[string]string{"policy": w.name, "outcome": outcome}); got != want {
			t.Errorf("%v decisions are %s, want %v", got, outcome, want)
		}
	}
	eventually(w, func() error {
		for name, want := range map[string]float64{
			"bursar_policy_ready": 1, "bursar_adoption_complete": 1, "bursar_adoption_adopted_objects": 1, "bursar_adoption_failed_objects": 0,
		} {
			if got := counted(t, name, map[string]string{"policy": w.name}); got != want {
				return fmt.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		return nil
	})
	processed, found := counted(t, "bursar_adoption_processed_objects", map[string]string{"policy": w.name}), counted(t, "bursar_adoption_objects", map[string]string{"policy": w.name})
	if processed == 0 || processed != found {
		t.Errorf("%v of %v objects were looked at", processed, found)
	}
	if got := counted(t, "bursar_ready", nil); got != 1 {
		t.Errorf("bursar_ready is %v", got)
	}
	if end := counted(t, "bursar_webhook_certificate_expiry_timestamp_seconds", nil); end != 0 {
		t.Errorf("the certificate ends at %v, and a server that calls its webhooks in memory has none", end)
	}
}

// wantThreshold waits until the metric has the threshold of the world's consumer.
func (w *world) wantThreshold(want float64) {
	w.Helper()
	eventually(w, func() error {
		if got, err := w.gauged("quota_alert_threshold_ratio"); err != nil || got != want {
			return fmt.Errorf("the threshold is %v, want %v: %w", got, want, err)
		}
		return nil
	})
}

// TestThreshold has a grant set the threshold of its consumer. A metric and events report it.
func TestThreshold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 10)
	w.wantThreshold(0.8)
	for _, value := range []string{"", "0", "101", "70%"} {
		err := w.tryUpdate(grant, func() { grant.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: value} })
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be a whole number of percent from 1 to 100, such as 80") {
			t.Errorf("a threshold of %q: got %v", value, err)
		}
	}
	w.update(grant, func() { grant.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "70"} })
	w.wantThreshold(0.7)
	effective, err := w.effective()
	must(t, err)
	wantEvent := func(reason string, parts ...string) {
		t.Helper()
		w.wantEventWhere(reason, parts, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == effective.UID && e.Regarding.Kind == "EffectiveResourceGrant" && e.Namespace == effective.Namespace
		})
	}
	w.mustCreate(w.claim("most", 7))
	wantEvent("QuotaNearLimit", "Organization "+w.name+" uses 7 maps of 10 maps", "70% or more of its limit")
	w.mustCreate(w.claim("rest", 3))
	wantEvent("QuotaReached", "uses all "+w.resourceType())
	w.update(grant, func() { grant.Spec.Allowances[0].Buckets[0].Amount = 9 })
	wantEvent("QuotaExceeded", "10 maps of 9 maps")
	w.mustDelete(w.claim("most", 7))
	wantEvent("QuotaBelowThreshold", "3 maps of 9 maps", "less than 70%")
}
